"""Figures on a handful of predictions that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmcast.probe.examples import Example, merged
from slurmcast.probe.figures import better
from slurmcast.probe.targets import truths

TIMES = {"one": (100, 200), "two": (100, 90), "three": (100, 104)}


def test_better_counts_keys_that_ran_on_both() -> None:
    examples = [
        Example(key, np.ones(1, np.float32), {}, 1, partition, "", time_s)
        for key, times in TIMES.items()
        for partition, time_s in zip(("p", "q"), times, strict=True)
    ]
    examples.append(Example("alone", np.ones(1, np.float32), {}, 1, "p", "", 5))
    samples = merged(examples)
    truth = truths(samples)["time"]
    guess = np.log([100, 150, 100, 120, 100, 104, 5])
    found = better(samples, truth, guess)["p/q"]
    assert found["keys"] == 3
    assert found["right"] == pytest.approx(2 / 3)
    assert found["always"] == pytest.approx(2 / 3)
    assert found["ratio_ape"] == pytest.approx(0.25)
    clear = better(samples, truth, guess, margin=0.08)["p/q"]
    assert (clear["keys"], clear["right"], clear["always"]) == (2, 0.5, 0.5)
    unknown = np.where(np.arange(7) < 2, math.nan, guess)
    assert better(samples, truth, unknown)["p/q"]["keys"] == 2
    assert np.isnan(truths(samples)["energy"]).all()
