"""The simulator's event loop and the paper's executor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.base import Policy
from slurmcast.policy.greedy import Greedy
from slurmcast.policy.patient import Patient
from slurmcast.policy.simple import simple
from slurmcast.policy.value import ValueRule
from slurmcast.simulate.engine import SimulationError, run, verify
from slurmcast.simulate.executors import skip
from slurmcast.simulate.metrics import measure
from slurmcast.simulate.workload import Cluster, Schedule, Workload

CLUSTER = Cluster(("big", "small"), np.array([4.0, 8.0]), np.array([60.0, 20.0]))
POLICIES = (simple, Greedy(1.0, 0.0), ValueRule(1e-4), Patient(1e-3))


def workload(
    submit_s: list[float],
    gpus: list[int],
    time_s: list[tuple[float, float]],
    may: list[tuple[bool, bool]] | None = None,
) -> Workload:
    """Jobs whose predictions are true and whose energy is 0.3 and 0.2 kW a GPU."""
    a = np.repeat(np.array(gpus, float)[:, None], 2, axis=1)
    t = np.array(time_s, float)
    e = a * t * np.array([0.3, 0.2]) / 3600
    allowed = np.ones((len(gpus), 2), bool) if may is None else np.array(may)
    return Workload(
        np.array(submit_s, float), a, allowed, t, e, t.copy(), t * 1.5, e.copy(), np.full(len(gpus), np.inf)
    )


def random_workload(n: int, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0.3, 0.3, n)
    base = rng.lognormal(5, 1, n)
    times = [(t, t * s) for t, s in zip(base, speed, strict=True)]
    found = workload(np.cumsum(rng.exponential(60, n)).tolist(), rng.integers(1, 5, n).tolist(), times)
    unknown = rng.random(n) < 0.2
    found.predicted_s[unknown] = found.high_s[unknown] = found.predicted_kwh[unknown] = np.nan
    return found


def test_a_job_that_fits_nowhere_is_named() -> None:
    jobs = workload([0, 5], [1, 9], [(10, 10), (10, 10)])
    with pytest.raises(SimulationError, match="1 jobs never started, job 1 first"):
        run(jobs, CLUSTER, ValueRule(0.0), skip)


@pytest.mark.parametrize(
    ("start_s", "types", "message"),
    [
        ([0, 0, 0], [0, 0, 0], "6 GPUs of big were in use, there are 4"),
        ([0, 0, 4], [0, 0, 1], "job 2 started before it was submitted"),
        ([0, 0, np.nan], [0, 0, 0], "job 2 never ran"),
        ([0, 0, 9], [0, 1, 0], "job 1 ran where it may not"),
    ],
)
def test_verify_finds_broken_schedules(start_s: list[float], types: list[int], message: str) -> None:
    may = [(True, True), (True, False), (True, True)]
    jobs = workload([0, 0, 0 if len(set(types)) == 1 else 5], [2, 2, 2], [(10, 10)] * 3, may)
    with pytest.raises(SimulationError, match=message):
        verify(jobs, CLUSTER, Schedule(np.array(start_s, float), np.array(types)))


def test_what_a_schedule_costs() -> None:
    jobs = workload([0, 10], [2, 1], [(100, 200), (50, 60)])
    found = measure(jobs, CLUSTER, Schedule(np.array([0.0, 40.0]), np.array([0, 1])))
    assert (found.wait_s, found.waiting_tasks, found.run_s, found.makespan_s) == (30, 1, 160, 100)
    assert found.energy_kwh == pytest.approx((2 * 100 * 0.3 + 60 * 0.2) / 3600)
    idle = (4 * 100 - 200) * 60 + (8 * 100 - 60) * 20
    assert found.with_idle_kwh - found.energy_kwh == pytest.approx(idle / 3.6e6)
    assert found.slowdown_p99 == pytest.approx(1.495)


@pytest.mark.parametrize("broken", ["order", "nowhere", "time"])
def test_work_that_cannot_be_simulated_is_refused(broken: str) -> None:
    submit_s = [5.0, 0.0] if broken == "order" else [0.0, 0.0]
    may = [(True, True), (broken != "nowhere", broken != "nowhere")]
    with pytest.raises(
        ValueError, match={"order": "order", "nowhere": "job 1 may", "time": "job 1: a running"}[broken]
    ):
        workload(submit_s, [1, 1], [(1, 1), (1, float("nan") if broken == "time" else 1)], may)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), place=st.sampled_from(range(len(POLICIES))))
def test_every_job_runs_once_within_the_clusters_bounds(n: int, seed: int, place: int) -> None:
    jobs = random_workload(n, seed)
    schedule = run(jobs, CLUSTER, POLICIES[place], skip)
    verify(jobs, CLUSTER, schedule)
    again = run(jobs, CLUSTER, POLICIES[place], skip)
    assert np.array_equal(schedule.start_s, again.start_s)


@pytest.mark.parametrize(
    ("policy", "starts", "types"),
    [
        # The last job is short and would fit on "small" at once: only the value rule lets it pass the wide one.
        (simple, [0, 0, 100, 100], [0, 1, 0, 1]),
        (Greedy(1.0, 0.0), [0, 100, 200, 250], [0, 0, 0, 0]),
        (ValueRule(0.0), [0, 0, 10, 0], [1, 1, 0, 0]),
    ],
)
def test_starts_by_hand(policy: Policy, starts: list[float], types: list[int]) -> None:
    jobs = workload([0, 0, 0, 0], [4, 4, 8, 2], [(100, 200), (100, 100), (50, 50), (10, 10)], None)
    jobs.gpus[2, 0] = 4
    schedule = run(jobs, CLUSTER, policy, skip)
    assert schedule.start_s.tolist() == starts
    assert schedule.type.tolist() == types
