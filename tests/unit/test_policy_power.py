"""The cap on predicted power: it holds under each policy, and nothing else changes where it doesn't bind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.base import Moment, Offers, Policy, Queue, Running
from slurmcast.policy.power import PowerCapped, job_power_w
from slurmcast.policy.registry import POLICIES, named
from slurmcast.policy.simple import simple
from slurmcast.policy.value import ValueRule
from slurmcast.simulate.engine import SimulationError, run, verify
from slurmcast.simulate.executors import EXECUTORS, skip
from slurmcast.simulate.workload import Schedule, Workload
from tests.unit.test_simulate_engine import CLUSTER, random_workload, workload

GPU_W = np.array([300.0, 200.0])
"""What jobs of :func:`workload` draw a GPU."""


def highest_w(jobs: Workload, schedule: Schedule) -> float:
    """The largest sum of true power over time."""
    index = np.arange(len(jobs))
    power = jobs.gpus[index, schedule.type] * GPU_W[schedule.type]
    end_s = schedule.start_s + jobs.time_s[index, schedule.type]
    return max(float(power[(schedule.start_s <= at) & (end_s > at)].sum()) for at in schedule.start_s)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 40),
    st.integers(0, 10_000),
    st.sampled_from(sorted(POLICIES)),
    st.floats(1201, 3000),
    st.sampled_from(["skip", "slurm"]),  # between two looks of the agent no cap holds Slurm
)
def test_the_cap_holds(n: int, seed: int, name: str, cap_w: float, executor: str) -> None:
    jobs = random_workload(n, seed)
    schedule = run(jobs, CLUSTER, PowerCapped(named(name, 1e-4, 1.0), cap_w, GPU_W), EXECUTORS[executor])
    verify(jobs, CLUSTER, schedule)
    assert highest_w(jobs, schedule) <= cap_w + 1e-6
    assert highest_w(jobs, run(jobs, CLUSTER, named(name, 1e-4, 1.0), skip)) <= 4 * 300 + 8 * 200


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_cap_that_never_binds_changes_nothing(name: str) -> None:
    jobs = random_workload(60, 3)
    free, capped = named(name, 1e-4, 1.0), PowerCapped(named(name, 1e-4, 1.0), 1e9, GPU_W)
    assert np.array_equal(run(jobs, CLUSTER, free, skip).start_s, run(jobs, CLUSTER, capped, skip).start_s)


def test_a_job_above_the_cap_never_starts() -> None:
    jobs = workload([0, 0], [1, 4], [(10, 10)] * 2, [(True, True), (True, False)])
    with pytest.raises(SimulationError, match="1 jobs never started, job 1 first"):
        run(jobs, CLUSTER, PowerCapped(ValueRule(0.0), 1199, GPU_W), skip)


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        (ValueRule(0.0), [0, 100, 0]),  # the last job has the power that the second one lacks
        (simple, [0, 100, 100]),  # and here it may not pass
    ],
)
def test_who_lacks_power_blocks_only_where_order_must_be_kept(policy: Policy, starts: list[float]) -> None:
    jobs = workload([0, 0, 0], [2, 2, 1], [(100, 1)] * 3, [(True, False)] * 3)
    assert run(jobs, CLUSTER, PowerCapped(policy, 1000, GPU_W), skip).start_s.tolist() == starts


def test_energy_that_is_not_known_draws_what_the_type_does() -> None:
    jobs = workload([0, 0], [2, 3], [(100, 100)] * 2)
    jobs.predicted_kwh[1] = np.nan
    known = Queue(jobs.submit_s, jobs.gpus, jobs.may, jobs.predicted_s, jobs.high_s, jobs.predicted_kwh, jobs.limit_s)
    assert job_power_w(known, np.array([111.0, 222.0])) == pytest.approx(np.array([[600, 400], [333, 666]]))


def test_what_cannot_start_in_this_moment_keeps_its_place() -> None:
    jobs = workload([0, 0, 0], [4, 1, 1], [(100, 1)] * 3, [(True, False)] * 3)
    queue = Queue(jobs.submit_s, jobs.gpus, jobs.may, jobs.predicted_s, jobs.high_s, jobs.predicted_kwh, jobs.limit_s)
    one, nan = np.array([1.0]), np.array([np.nan])
    running = Running(np.array([0]), one, nan, nan, np.array([np.inf]), nan)
    moment = Moment(0.0, np.array([3.0, 8.0]), CLUSTER.gpus, queue, running)

    def everybody(_: Moment) -> Offers:
        return Offers(np.arange(3), np.zeros(3, np.int64))

    kept = PowerCapped(everybody, 650, GPU_W)(moment)  # 300 W run: there is room for one job of one GPU
    assert kept.jobs.tolist() == [0, 1]
