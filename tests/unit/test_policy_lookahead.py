"""The look-ahead rule: when it waits, when it is the value rule, and that nobody is passed over for ever."""

from __future__ import annotations

from math import exp, inf, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.base import Moment, Queue, Running
from slurmcast.policy.lookahead import LookAhead, remaining, warning
from slurmcast.policy.value import ValueRule
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import EXECUTORS, skip
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.workload import Cluster, Workload

Ends = list[tuple[int, float, float]]
"""Type, GPUs and expected end of each running job, with an 0.9 quantile a tenth later."""


def moment(time_s: list[tuple[float, float]], free: tuple[float, float], running: Ends, now_s: float = 0.0) -> Moment:
    """Jobs of one GPU; energy is 0.3 and 0.1 kW."""
    t = np.array(time_s, float).reshape(-1, 2)
    n = len(t)
    ends = np.array([end for _, _, end in running])
    types, gpus = np.array([j for j, _, _ in running], int), np.array([a for _, a, _ in running], float)
    total = np.array(free) + np.bincount(types, gpus, 2)
    queue = Queue(
        np.zeros(n), np.ones((n, 2)), np.ones((n, 2), bool), t, t * 1.5, t * [0.3, 0.1] / 3600, np.full(n, inf)
    )
    unlimited = np.full(len(running), inf)
    return Moment(now_s, np.array(free), total, queue, Running(types, gpus, ends, ends * 1.1, unlimited, gpus * 300))


@pytest.mark.parametrize(
    ("end_s", "patience", "kappa", "starts"),
    [
        # 100 s on "big", 300 on "small", which is free: 200 s are saved, of which half may be waited for.
        (90, 0.5, 0.0, []),
        (110, 0.5, 0.0, [(0, 1)]),
        (110, 1.0, 0.0, []),
        (10, 0.0, 0.0, [(0, 1)]),
        (10_000, inf, 0.0, []),
        (90, 0.5, 1e-9, []),  # 0.0083 kWh on either: kappa changes nothing
    ],
)
def test_a_job_waits_for_the_better_type_where_that_pays(
    end_s: float, patience: float, kappa: float, starts: list[tuple[int, int]]
) -> None:
    now = moment([(100, 300)], (0, 1), [(0, 1, end_s)])
    assert skip.start(now, LookAhead(kappa, patience)(now)) == starts


def test_a_job_waits_for_the_type_that_takes_less_energy() -> None:
    now = moment([(100, 100)], (1, 0), [(1, 1, 40)])
    assert skip.start(now, LookAhead(0.0)(now)) == [(0, 0)]
    assert skip.start(now, LookAhead(10.0)(now)) == []
    assert skip.start(now, ValueRule(10.0)(now)) == [(0, 0)]


def test_those_that_wait_make_the_wait_of_others_longer() -> None:
    """One GPU of "big" comes free in 20 s. The first job waits for it; the second would have to wait for 120 s."""
    now = moment([(100, 300), (101, 300)], (0, 2), [(0, 1, 20)])
    offers = LookAhead()(now)
    assert list(zip(offers.jobs.tolist(), offers.types.tolist(), strict=True)) == [(0, 0), (1, 1), (1, 0)]
    assert skip.start(now, offers) == [(1, 1)]


def test_unknown_jobs_and_unknown_ends() -> None:
    """A job of which nothing is known starts wherever there is room; nobody waits for an end that nobody knows."""
    now = moment([(nan, nan)], (0, 1), [(0, 1, 10)])
    assert skip.start(now, LookAhead(1.0)(now)) == [(0, 1)]
    now = moment([(100, 300)], (0, 1), [(0, 1, nan)])
    assert skip.start(now, LookAhead()(now)) == [(0, 1)]


def test_no_jobs() -> None:
    now = moment([], (1, 1), [(0, 1, 5)])
    assert len(LookAhead()(now).jobs) == 0


@pytest.mark.parametrize(
    ("submitted", "told"), [([], False), ([0, 90], False), ([0, 10, 90], True), ([0, 10, 20, 90, 90], True)]
)
def test_most_jobs_are_late(submitted: list[float], told: bool) -> None:
    found = warning(submitted, 100.0, 50.0)
    assert (found is not None) == told
    assert found is None or f"of {len(submitted)} pending jobs" in found


@pytest.mark.parametrize("wrong", [{"patience": -1.0}, {"longest_wait_s": -1.0}, {"patience": nan}])
def test_parameters_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        LookAhead(**wrong)


def test_how_long_running_jobs_are_expected_to_go_on() -> None:
    """Against the mean of many draws; a job that has outlived its prediction goes on for the scale of the tail."""
    scale = 50 / log(9)
    draws = np.random.default_rng(1).logistic(100, scale, 400_000)
    for now_s in (0.0, 100.0, 150.0):
        expected = (draws[draws > now_s] - now_s).mean()
        assert remaining(now_s, _one(100, 150))[0] == pytest.approx(expected, rel=0.02)
    assert remaining(1e6, _one(100, 150))[0] == pytest.approx(scale)
    assert remaining(90.0, _one(100, 100))[0] == pytest.approx(10 + exp(-10), abs=1e-3)
    assert remaining(0.0, _one(nan, nan))[0] == inf
    assert remaining(10.0, _one(nan, nan, 70))[0] == 60
    assert remaining(10.0, _one(100, 150, 70))[0] == 60
    assert remaining(80.0, _one(100, 101, 70))[0] == pytest.approx(20, rel=0.01)


def _one(end_s: float, high_s: float, limit_s: float = inf) -> Running:
    return Running(np.zeros(1, int), *(np.array([x]) for x in (1.0, end_s, high_s, limit_s, 300.0)))


CLUSTER = Cluster(("big", "small"), np.array([4.0, 8.0]), np.array([60.0, 20.0]))


def made_up(n: int, seed: int, gap_s: float = 60.0, widest: int = 4) -> Workload:
    """Jobs on both types, with predictions that err, a fifth of them unknown, and limits that all keep."""
    rng = np.random.default_rng(seed)
    a = np.repeat(rng.integers(1, widest + 1, n)[:, None].astype(float), 2, axis=1)
    t = rng.lognormal(5, 1, (n, 2)) + 1
    may = rng.random((n, 2)) < 0.8
    may[~may.any(axis=1)] = True
    e = a * t * rng.uniform(0.1, 0.4, (n, 2)) / 3600
    limit_s = t.max(axis=1) * rng.uniform(1, 4, n)
    submit_s = np.cumsum(rng.exponential(gap_s, n))
    return with_noise(Workload(submit_s, a, may, t, e, t, t, e, limit_s), 0.3, 0.2, seed)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), kappa=st.sampled_from([0.0, 1e-6, 1e-3, 10.0]))
def test_without_patience_it_is_the_value_rule(n: int, seed: int, kappa: float) -> None:
    jobs = made_up(n, seed)
    found = run(jobs, CLUSTER, LookAhead(kappa, 0.0, inf), skip)
    expected = run(jobs, CLUSTER, ValueRule(kappa), skip)
    assert np.array_equal(found.start_s, expected.start_s)
    assert np.array_equal(found.type, expected.type)


@pytest.mark.parametrize("executor", EXECUTORS)
@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 60),
    seed=st.integers(0, 10_000),
    longest_wait_s=st.sampled_from([0.0, 300.0, 2000.0]),
    patience=st.sampled_from([0.0, 0.5, inf]),
)
def test_nobody_is_passed_over_for_longer_than_promised(
    executor: str, n: int, seed: int, longest_wait_s: float, patience: float
) -> None:
    jobs = made_up(n, seed, gap_s=20.0)
    schedule = run(jobs, CLUSTER, LookAhead(1e-4, patience, longest_wait_s), EXECUTORS[executor])
    verify(jobs, CLUSTER, schedule)
    waits = schedule.start_s - jobs.submit_s
    older = np.cumsum(waits > longest_wait_s) - (waits > longest_wait_s)
    assert (waits <= longest_wait_s + (older + 1) * jobs.limit_s.max() + 1e-6).all()


def test_a_wide_job_starts_where_the_value_rule_passes_over_it() -> None:
    """One GPU after the other comes free and is taken by the next short job, until the wide one reserves."""
    n = 200
    a = np.ones((n, 1))
    a[1] = 4
    t = np.where(a == 4, 500.0, 100.0)
    submit_s = np.concatenate([[0.0, 1.0], np.arange(1, n - 1) * 24.0])
    jobs = Workload(submit_s, a, a > 0, t, t, t, t, t, np.full(n, 600.0))
    cluster = Cluster(("only",), np.array([4.0]), np.array([50.0]))
    starved, bounded = (
        run(jobs, cluster, LookAhead(longest_wait_s=limit), skip).start_s[1] - 1 for limit in (inf, 1000)
    )
    assert starved > 3000
    assert bounded <= 1000 + 600
