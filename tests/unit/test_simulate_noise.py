"""Predictions made from the truth with an error."""

from __future__ import annotations

import numpy as np
import pytest

from slurmcast.simulate.noise import Split, with_noise
from slurmcast.simulate.workload import Workload

N = 20_000


def jobs(n: int = N) -> Workload:
    """Jobs whose predictions are to be made, on two types."""
    rng = np.random.default_rng(1)
    time_s = rng.lognormal(7, 2, (n, 2))
    none = np.full((n, 2), np.nan)
    ones = np.ones((n, 2))
    energy_kwh = time_s * np.array([0.3, 0.2]) / 3600
    return Workload(np.arange(n) * 1.0, ones, ones > 0, time_s, energy_kwh, none, none, none, np.full(n, np.inf))


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("split", [Split(), Split(shared=0.2, power=1.0)])
def test_errors_are_as_large_as_they_are_said_to_be(sigma: float, split: Split) -> None:
    truth = jobs()
    found = with_noise(truth, sigma, 0.0, seed=3, split=split)
    error = np.log(found.predicted_s / truth.time_s)
    assert np.median(error) == pytest.approx(0, abs=0.02 * sigma)
    assert error.std() == pytest.approx(sigma, rel=0.02)
    assert (truth.time_s <= found.high_s).mean() == pytest.approx(0.9, abs=0.005)
    assert (error[:, 0] - error[:, 1]).std() == pytest.approx(sigma * np.sqrt(2 * (1 - split.shared)), rel=0.03)
    of_power = np.log(found.predicted_kwh / truth.energy_kwh) - error
    assert of_power.std() == pytest.approx(split.power * sigma, rel=0.02)


def test_without_noise_the_truth_is_predicted() -> None:
    truth = jobs(50)
    found = with_noise(truth, 0.0, 0.0, seed=0)
    for made, true in ((found.predicted_s, truth.time_s), (found.high_s, truth.time_s)):
        assert np.array_equal(made, true)
    assert np.array_equal(found.predicted_kwh, truth.energy_kwh)


def test_of_unknown_jobs_nothing_is_predicted_on_any_type() -> None:
    truth = jobs(1000)
    some, more = (with_noise(truth, 0.3, share, seed=5) for share in (0.1, 0.3))
    for made, count in ((some, 100), (more, 300)):
        unknown = np.isnan(made.predicted_s)
        assert unknown.all(axis=1).sum() == unknown.any(axis=1).sum() == count
        assert np.array_equal(unknown, np.isnan(made.high_s)) and np.array_equal(unknown, np.isnan(made.predicted_kwh))
    assert not (np.isnan(some.predicted_s) & ~np.isnan(more.predicted_s)).any()
    assert np.array_equal(made.time_s, truth.time_s)


def test_one_seed_gives_one_draw_that_grows_with_sigma() -> None:
    truth = jobs(200)
    one, two, other = (with_noise(truth, sigma, 0.1, seed) for sigma, seed in ((0.1, 5), (0.2, 5), (0.1, 6)))
    known = ~np.isnan(one.predicted_s)
    errors = [np.log(made.predicted_s / truth.time_s)[known] for made in (one, two)]
    assert errors[1] == pytest.approx(2 * errors[0])
    assert not np.array_equal(one.predicted_s, other.predicted_s, equal_nan=True)


@pytest.mark.parametrize(("sigma", "share"), [(-0.1, 0.0), (0.1, 1.1), (0.1, -0.1), (float("nan"), 0.0)])
def test_impossible_amounts_are_refused(sigma: float, share: float) -> None:
    with pytest.raises(ValueError, match="shares are 0 to 1"):
        with_noise(jobs(3), sigma, share, seed=0)
