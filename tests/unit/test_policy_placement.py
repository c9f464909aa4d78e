"""From offers to a type for each job and one line, and what Slurm's executor makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.base import Offers
from slurmcast.policy.conservative import conservative
from slurmcast.policy.greedy import Greedy
from slurmcast.policy.placement import assign, first_choice, in_line
from slurmcast.policy.simple import simple
from slurmcast.policy.value import ValueRule
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import agent, skip, slurm
from tests.unit.test_policy_backfill import ONE, TWO, random_workload, workload

PAIRS = Offers.of([(2, 1), (0, 0), (2, 0), (0, 1), (1, 1)])


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        ([9, 9], {2: 1, 0: 0, 1: 1}),
        ([1, 1], {2: 1, 0: 0}),
        ([1, 0], {0: 0}),
        ([0, 2], {2: 1, 0: 1}),
        ([0, 0], {}),
    ],
)
def test_assign(room: list[int], expected: dict[int, int]) -> None:
    def take(_job: int, kind: int) -> bool:
        room[kind] -= 1
        return room[kind] >= 0

    assert assign(PAIRS, take) == expected


def test_where_jobs_wait() -> None:
    assert first_choice(PAIRS, 4).tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize(
    ("types", "fits", "in_order", "expected"),
    [
        ([0, 1, 1, -1], [False] * 4, False, [2, 0, 1, 3]),
        ([1, 1, 0, -1], [False] * 4, False, [2, 0, 1, 3]),
        ([0, 1, 1, -1], [False, True, False, False], False, [1, 2, 0, 3]),
        ([0, 0, 1, 0], [False] * 4, False, [2, 0, 1, 3]),  # job 1's type wasn't offered: by its first pair
        ([0, 1, 1, -1], [False, True, False, False], True, [2, 0, 1, 3]),
    ],
)
def test_in_line(types: list[int], fits: list[bool], in_order: bool, expected: list[int]) -> None:
    offers = Offers(PAIRS.jobs, PAIRS.types, in_order)
    assert in_line(offers, np.array(types), np.array(fits)).tolist() == expected


def test_slurm_backfills_on_each_partition_by_itself() -> None:
    # Full until 100 and 200; the wide job waits at the first; one behind it ends in time on the second, one doesn't.
    jobs = workload([(0, 4, 100, 100), (0, 8, 200, 200), (1, 4, 10, 10), (2, 1, 10, 10)], types=2)
    jobs.may[1, 0] = False
    jobs.gpus[1, 1] = 6
    schedule = run(jobs, TWO, simple, slurm)
    assert schedule.start_s.tolist() == [0, 0, 100, 2]
    assert schedule.type.tolist() == [0, 1, 0, 1]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000))
def test_in_order_of_submission_slurm_is_conservative_backfilling(n: int, seed: int) -> None:
    jobs = random_workload(n, seed, 1, exact=False)
    assert np.array_equal(run(jobs, ONE, simple, slurm).start_s, run(jobs, ONE, conservative, skip).start_s)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), kappa=st.sampled_from([0.0, 1e-4]))
def test_with_the_agent_at_every_event_slurm_does_what_the_value_rule_says(n: int, seed: int, kappa: float) -> None:
    jobs = random_workload(n, seed, 2, exact=False)
    found, expected = (run(jobs, TWO, ValueRule(kappa), executor) for executor in (slurm, skip))
    assert np.array_equal(found.start_s, expected.start_s)
    assert np.array_equal(found.type, expected.type)
    verify(jobs, TWO, run(jobs, TWO, Greedy(), slurm))


def test_between_two_looks_slurm_keeps_the_line_that_it_has() -> None:
    # Both types are full, "small" until 55. The third job waits at "big", where it is faster, until the next look.
    jobs = workload([(0, 4, 100, 100), (0, 8, 55, 55), (1, 1, 10, 10)], types=2)
    jobs.may[0, 1] = jobs.may[1, 0] = False
    jobs.predicted_s[2] = 10, 20
    starts = [
        run(jobs, TWO, ValueRule(0.0), replace(agent, period_s=period)).start_s[2] for period in (None, 1.0, 30.0, 80.0)
    ]
    assert starts == [55, 56, 60, 80]


def test_arrivals_wake_the_agent() -> None:
    jobs = workload([(0, 4, 100, 100), (0, 8, 55, 55), (1, 1, 10, 10), (57, 1, 10, 10)], types=2)
    jobs.may[0, 1] = jobs.may[1, 0] = False
    jobs.predicted_s[2] = 10, 20
    assert run(jobs, TWO, ValueRule(0.0), agent).start_s.tolist() == [0, 0, 57, 57]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), period=st.sampled_from([None, 1.0, 30.0, 3600.0]))
def test_whenever_the_agent_looks_every_job_runs_once(n: int, seed: int, period: float | None) -> None:
    jobs = random_workload(n, seed, 2, exact=False)
    schedule = run(jobs, TWO, ValueRule(0.0), replace(agent, period_s=period))
    verify(jobs, TWO, schedule)
    if period is None:  # ordering twice changes nothing
        assert np.array_equal(schedule.start_s, run(jobs, TWO, ValueRule(0.0), slurm).start_s)
