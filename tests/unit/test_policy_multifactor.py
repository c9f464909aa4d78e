"""Priority by age and fairshare, and the usage behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.conservative import conservative
from slurmcast.policy.multifactor import Multifactor
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import skip
from slurmcast.simulate.usage import HALF_LIFE_S, Usage
from tests.unit.test_policy_backfill import ONE, TWO, random_workload, workload

# Alice fills the cluster until 100; then she and bob each wait for all of it, she first.
CROWD = [(0, 4, 100, 100), (10, 4, 50, 50), (20, 4, 50, 50)]


@pytest.mark.parametrize(
    ("users", "policy", "expected"),
    [
        (("alice", "alice", "bob"), Multifactor(), [0, 150, 100]),
        (("alice", "bob", "alice"), Multifactor(), [0, 100, 150]),
        (("alice", "alice", "bob"), Multifactor(fairshare_weight=0.0), [0, 100, 150]),
        (("alice", "alice", "bob"), Multifactor(max_age_s=100.0, fairshare_weight=130.0), [0, 100, 150]),
        (("alice", "alice", "bob"), Multifactor(max_age_s=100.0, fairshare_weight=140.0), [0, 150, 100]),
        ((), Multifactor(), [0, 100, 150]),
    ],
)
def test_who_has_used_less_goes_first(users: tuple[str, ...], policy: Multifactor, expected: list[float]) -> None:
    jobs = replace(workload(CROWD), user=users)
    assert run(jobs, ONE, policy, skip).start_s.tolist() == expected


def test_usage_decays() -> None:
    usage = Usage(("alice", "bob"))
    both = np.array([0, 1])
    assert usage.of(both, 0.0).tolist() == [0, 0]
    usage.occupy(0, 2.0, 0.0)
    usage.occupy(0, -2.0, 100.0)
    assert usage.of(both, 100.0).tolist() == [2, 0]
    usage.occupy(1, 2.0, 100.0 + HALF_LIFE_S)  # by now alice's 200 GPU s count as 100
    usage.occupy(1, -2.0, 200.0 + HALF_LIFE_S)
    assert usage.of(both, 200.0 + HALF_LIFE_S) == pytest.approx([2 / 3, 4 / 3], rel=1e-3)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), users=st.integers(1, 5))
def test_every_job_runs_once_and_one_user_is_first_come_first_served(n: int, seed: int, users: int) -> None:
    jobs = random_workload(n, seed, 2, exact=False)
    jobs = replace(jobs, user=tuple(str(job % users) for job in range(n)))
    schedule = run(jobs, TWO, Multifactor(max_age_s=1e9), skip)
    verify(jobs, TWO, schedule)
    if users == 1:
        assert np.array_equal(schedule.start_s, run(jobs, TWO, conservative, skip).start_s)
