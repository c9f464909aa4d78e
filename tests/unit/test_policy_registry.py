"""Policies by name."""

from __future__ import annotations

import pytest

from slurmcast.policy.greedy import Greedy
from slurmcast.policy.lookahead import LookAhead
from slurmcast.policy.patient import Patient
from slurmcast.policy.registry import POLICIES, named
from slurmcast.policy.simple import simple
from slurmcast.policy.value import ValueRule


def test_names_and_their_weights() -> None:
    assert named("simple") is simple
    assert named("greedy", gamma=3.0) == Greedy(1.0, 3.0)
    assert named("value", 0.1) == ValueRule(0.1)
    assert named("patient", 0.1) == Patient(0.1)
    assert named("lookahead", 0.1) == LookAhead(0.1)
    assert named("lookahead", 0.1, patience=2.0, longest_wait_s=60.0) == LookAhead(0.1, 2.0, 60.0)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=f"no policy 'fifo'; there are: {', '.join(POLICIES)}"):
        named("fifo")
