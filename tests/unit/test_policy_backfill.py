"""EASY and conservative backfilling, and the profile of free GPUs that both reserve in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.backfill import OUTLIVED_S, UNLIMITED_S, Profile, durations, ends
from slurmcast.policy.base import Floats, Moment, Policy, Queue, Running
from slurmcast.policy.conservative import conservative
from slurmcast.policy.easy import Easy
from slurmcast.policy.simple import simple
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import skip
from slurmcast.simulate.workload import Cluster, Workload

ONE = Cluster(("big",), np.array([4.0]), np.array([0.0]))
TWO = Cluster(("big", "small"), np.array([4.0, 8.0]), np.array([0.0, 0.0]))


def workload(
    jobs: list[tuple[float, int, float, float]], types: int = 1, predicted: tuple[float, ...] | None = None
) -> Workload:
    """Jobs as (submission, GPUs, running time, time limit), the same on each type; predictions are true by default."""
    submit_s, gpus, time_s, limit_s = np.array(jobs, float).T
    a, t = (np.repeat(column[:, None], types, axis=1) for column in (gpus, time_s))
    p = t if predicted is None else np.repeat(np.array(predicted, float)[:, None], types, axis=1)
    return Workload(submit_s, a, np.ones_like(a, bool), t, t, p, p, t, limit_s)


def random_workload(n: int, seed: int, types: int, exact: bool) -> Workload:
    rng = np.random.default_rng(seed)
    time_s = np.ceil(rng.lognormal(5, 1, n))
    limit_s = time_s if exact else np.ceil(time_s * rng.uniform(1, 5, n))
    submit_s = np.floor(np.cumsum(rng.exponential(60, n)))
    return workload(list(zip(submit_s, rng.integers(1, 5, n), time_s, limit_s, strict=True)), types)


def starts(jobs: Workload, cluster: Cluster, policy: Policy) -> list[float]:
    schedule = run(jobs, cluster, policy, skip)
    verify(jobs, cluster, schedule)
    found: list[float] = schedule.start_s.tolist()
    return found


# The second job waits for all GPUs until 100; the third ends by then, the fourth doesn't if its limit is believed.
HEAD = [(0, 3, 100, 100), (0, 4, 50, 50), (0, 1, 100, 100), (0, 1, 60, 150)]
# The second job leaves one GPU over, which the fourth may have, but then the third starts late.
DEPTH = [(0, 2, 100, 100), (0, 3, 100, 100), (0, 4, 50, 50), (0, 1, 250, 250)]
# The first ends after 10 of 100 s, and what was kept for the second is there.
EARLY = [(0, 3, 10, 100), (1, 4, 50, 50), (2, 1, 90, 90)]
# Without time limits nothing can be backfilled.
UNLIMITED = [(0, 3, 100, np.inf), (0, 4, 50, np.inf), (0, 1, 10, np.inf)]


@pytest.mark.parametrize(
    ("jobs", "policy", "expected"),
    [
        (HEAD, Easy(), [0, 100, 0, 150]),
        (HEAD, Easy("high"), [0, 100, 0, 150]),
        (HEAD[:2] + HEAD[3:], Easy(), [0, 100, 150]),
        (HEAD[:2] + HEAD[3:], Easy("high"), [0, 100, 0]),
        (HEAD[:2] + HEAD[3:], Easy("median"), [0, 100, 0]),
        (DEPTH, Easy(), [0, 100, 250, 0]),
        (DEPTH, conservative, [0, 100, 200, 250]),
        (EARLY, Easy(), [0, 92, 2]),
        (EARLY, simple, [0, 10, 60]),
        (UNLIMITED, Easy(), [0, 100, 150]),
    ],
)
def test_starts_by_hand(jobs: list[tuple[float, int, float, float]], policy: Policy, expected: list[float]) -> None:
    assert starts(workload(jobs), ONE, policy) == expected


def test_a_reservation_is_made_on_the_type_that_is_free_first() -> None:
    # Both types are full, "small" until 50; the wide job reserves there, so the last one may start on "big" only.
    jobs = workload([(0, 4, 100, 100), (0, 8, 50, 50), (1, 4, 10, 10), (2, 4, 10, 10)], types=2)
    jobs.may[1, 0] = False
    schedule = run(jobs, TWO, Easy(), skip)
    assert schedule.start_s.tolist() == [0, 0, 50, 50]
    assert schedule.type.tolist() == [0, 1, 1, 1]


def moment(now_s: float, queue: Queue, **running: list[float]) -> Moment:
    arrays = {name: np.array(values, float) for name, values in running.items()}
    r = len(arrays["end_s"])
    there = Running(np.zeros(r, np.int64), np.ones(r), power_w=np.zeros(r), **arrays)
    return Moment(now_s, np.array([1.0]), np.array([4.0]), queue, there)


def test_what_a_job_has_outlived_is_no_longer_believed() -> None:
    one = np.ones((1, 1))
    queue = Queue(np.zeros(1), one, one > 0, np.array([[np.nan]]), one * 70, one, np.array([np.inf]))
    now = moment(100, queue, end_s=[150, 90, np.nan, 90], high_s=[200, 180, np.nan, 95], limit_s=[300, 300, np.inf, 99])
    year = 100 + UNLIMITED_S
    assert ends(now, "median").tolist() == [150, 180, year, 100 + OUTLIVED_S]
    assert ends(now, "high").tolist() == [200, 180, year, 100 + OUTLIVED_S]
    assert ends(now, "limit").tolist() == [300, 300, year, 100 + OUTLIVED_S]
    assert durations(now, "median").tolist() == [[np.inf]]
    assert durations(now, "high").tolist() == [[70]]
    limited = replace(now, queue=replace(queue, limit_s=np.array([60.0])))
    assert durations(limited, "high").tolist() == [[60]]


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 60), seed=st.integers(0, 10_000), types=st.integers(1, 2), depth=st.sampled_from(["easy", "all"])
)
def test_every_job_runs_once_within_the_clusters_bounds(n: int, seed: int, types: int, depth: str) -> None:
    policy = Easy() if depth == "easy" else conservative
    starts(random_workload(n, seed, types, exact=False), ONE if types == 1 else TWO, policy)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000))
def test_with_true_limits_conservative_backfilling_delays_nobody(n: int, seed: int) -> None:
    jobs = random_workload(n, seed, 1, exact=True)
    assert (np.array(starts(jobs, ONE, conservative)) <= np.array(starts(jobs, ONE, simple))).all()


TAKEN = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3), st.integers(1, 9)), max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    running=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 3)), max_size=5),
    taken=TAKEN,
    gpus=st.integers(1, 8),
    duration=st.integers(1, 12),
)
def test_a_profile_is_what_counting_second_by_second_says(
    running: list[tuple[int, int]], taken: list[tuple[int, int, int]], gpus: int, duration: int
) -> None:
    end_s, freed = (np.array(column, float) for column in zip(*running, strict=True)) if running else (np.empty(0),) * 2
    profile = Profile.of(0.0, 2.0, end_s, freed)
    seconds = np.arange(100)
    free: Floats = 2.0 + sum(((seconds >= end) * count for end, count in running), np.zeros(100))
    for start, count, length in taken:
        profile.take(start, count, length)
        free = free - count * ((seconds >= start) & (seconds < start + length))
    fits = [(free[s : s + duration] >= gpus).all() for s in range(60)]
    assert profile.earliest(gpus, duration) == (fits.index(True) if any(fits) else np.inf)
    assert profile.holds(np.array([float(gpus)]), np.array([float(duration)])).tolist() == [fits[0]]
