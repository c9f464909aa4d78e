"""Made-up work: arrivals at the rate that is asked for, positive figures, the stored data centres."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from benchmarks.calibrate.search import FIGURES, SIMPLE, figures, fitted, guess, rounded
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.model import DAY_S, HOUR_S
from slurmcast.policy.simple import simple
from slurmcast.simulate import calibrations
from slurmcast.simulate.engine import run
from slurmcast.simulate.executors import skip
from slurmcast.simulate.metrics import measure
from slurmcast.simulate.synthetic import DAYS, Parameters, arrivals, draw, rate, truncated_normals

CENTRE = Parameters(
    jobs=100,
    daily_swing=0.5,
    weekend=0.4,
    burst_share=0.3,
    burst_starts_h=(100.0, 700.0),
    burst_length_h=10.0,
    gpus=(1, 4),
    gpu_shares=(0.75, 0.25),
    time_s=(1000.0, 1500.0),
    time_sd_s=(500.0, 500.0),
    energy_kwh=(2.0, 1.0),
    energy_sd_kwh=(1.0, 0.5),
    correlation=0.5,
)
centres = st.builds(
    lambda swing, weekend, share, starts, length: replace(
        CENTRE,
        daily_swing=swing,
        weekend=weekend,
        burst_share=share,
        burst_starts_h=tuple(starts),
        burst_length_h=length,
    ),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.lists(st.floats(0, 1400), min_size=1, max_size=5),
    st.floats(2, 48),
)


def expected(parameters: Parameters, begin_s: float, end_s: float) -> float:
    """Arrivals between two moments, by the rate in the middle of each of many short pieces."""
    edges = np.linspace(begin_s, end_s, 100_001)
    return float(rate(parameters, (edges[1:] + edges[:-1]) / 2).sum() * (edges[1] - edges[0]))


@settings(max_examples=30, deadline=None)
@given(centres)
def test_the_rate_adds_up_to_the_jobs(parameters: Parameters) -> None:
    assert expected(parameters, 0, DAYS * DAY_S) == pytest.approx(parameters.jobs, rel=5e-3)


@settings(max_examples=15, deadline=None)
@given(centres, st.integers(0, 1000), st.floats(0, 50), st.floats(0.2, 12))
def test_thinning_gives_the_rate_that_is_asked_for(
    parameters: Parameters, seed: int, begin: float, days: float
) -> None:
    rng, many = np.random.default_rng(seed), 60
    moments = np.concatenate([arrivals(parameters, rng) for _ in range(many)])
    for begin_s, end_s in ((0, DAYS * DAY_S), (begin * DAY_S, (begin + days) * DAY_S)):
        mean = many * expected(parameters, begin_s, end_s)
        count = np.count_nonzero((moments >= begin_s) & (moments < end_s))
        assert abs(count - mean) < 6 * np.sqrt(mean) + 6  # of a Poisson number; 6 more for its tail where it is small


def test_the_rhythm_of_day_and_week() -> None:
    at = np.array([15.0, 3.0, 5 * 24 + 15.0, 105.0]) * HOUR_S  # Monday at 15:00 and 3:00, Saturday at 15:00, a burst
    afternoon, night, saturday, burst = rate(CENTRE, at)
    assert night / afternoon == pytest.approx(0.5 / 1.5)
    assert saturday / afternoon == pytest.approx(0.4)
    assert burst > 100 * 0.3 / 2 / (10 * HOUR_S)


def test_truncated_normals() -> None:
    found = truncated_normals(np.array([1.0, 5.0]), np.array([1.0, 0.5]), 0.0, 200_000, np.random.default_rng(0))
    normal = NormalDist()
    mean = 1 + normal.pdf(-1) / (1 - normal.cdf(-1))
    assert (found > 0).all()
    assert found.mean(axis=0) == pytest.approx([mean, 5], abs=0.01)
    assert np.corrcoef(found.T)[0, 1] == pytest.approx(0, abs=0.01)
    tied = truncated_normals(np.array([9.0, 9.0]), np.array([1.0, 2.0]), 0.6, 200_000, np.random.default_rng(0))
    assert np.corrcoef(tied.T)[0, 1] == pytest.approx(0.6, abs=0.01)


def test_a_seed_is_a_sample() -> None:
    (one, cluster), (same, _), (other, _) = draw(CENTRE, (1, 2)), draw(CENTRE, (1, 2)), draw(CENTRE, (1, 3))
    assert np.array_equal(one.time_s, same.time_s)
    assert np.array_equal(one.submit_s, same.submit_s)
    assert not np.array_equal(one.submit_s[:5], other.submit_s[:5])
    assert 10 <= cluster.gpus[0] <= 20 <= cluster.gpus[1] <= 40
    assert set(one.gpus.ravel()) == {1, 4}
    assert (one.limit_s >= one.time_s.max(axis=1)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correlation": 1.5}, "correlation must lie"),
        ({"jobs": 0}, "must be positive"),
        ({"gpus": (1, 11)}, "more than 10 GPUs"),
    ],
)
def test_parameters_that_nothing_can_be_drawn_from(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CENTRE, **change)


def test_stored_data_centres_are_many_and_different() -> None:
    stored = calibrations.calibrations()
    assert len(stored) >= 20
    assert len({one.burst_starts_h for one in stored.values()}) == len(stored)
    assert calibrations.DEFAULT in stored
    with pytest.raises(ValueError, match="no calibration 'c99'; there are: c01, "):
        calibrations.calibration("c99")


@pytest.mark.parametrize("name", list(calibrations.calibrations()))
def test_the_simple_rule_of_a_stored_data_centre_does_as_the_papers(name: str) -> None:
    """Within 10 %, and five standard errors of few samples more."""
    found = []
    for number in range(20):
        workload, cluster = draw(calibrations.calibration(name), (99, number))
        metrics = measure(workload, cluster, run(workload, cluster, simple, skip))
        found.append([getattr(metrics, figure) for figure in FIGURES])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - SIMPLE) < 0.1 * SIMPLE + 5 * error).all()


def test_a_fit_moves_towards_the_figures() -> None:
    first = guess(np.random.default_rng((2024, 1)))
    better = fitted(first, (1,), 10, 8)
    assert better is not None
    before, after = (np.abs(np.log(figures(one, (1,), 10) / SIMPLE)).max() for one in (first, rounded(better)))
    assert after < 0.2 < before
