"""The patient rule: no job where its value is negative, unless it is the best that it can have."""

from __future__ import annotations

import numpy as np
import pytest

from slurmcast.policy.patient import offered

NAN = float("nan")


@pytest.mark.parametrize(
    ("v", "expected"),
    [
        ([3.0, 1.0], [3.0, 1.0]),
        ([3.0, -1.0], [3.0, NAN]),
        ([-1.0, -2.0], [-1.0, NAN]),
        ([-2.0, -2.0], [-2.0, -2.0]),
        ([NAN, -2.0], [NAN, -2.0]),
        ([NAN, NAN], [NAN, NAN]),
        ([0.0, -0.5], [0.0, NAN]),
    ],
)
def test_offered(v: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(offered(np.array([v])), np.array([expected]))


def test_nobody_waits() -> None:
    assert offered(np.empty((0, 2))).shape == (0, 2)


def test_without_energy_it_is_the_value_rule() -> None:
    v = 1.0 / np.arange(1.0, 9.0).reshape(4, 2)
    np.testing.assert_array_equal(offered(v), v)
