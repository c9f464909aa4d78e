"""What is kept between plans never shows in them, and what is new in a plan is told from what isn't."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurmcast.agent.known import Memo
from slurmcast.agent.plan import Plan, plan
from slurmcast.config import AgentConfig
from slurmcast.model import Decision, PendingJob, Snapshot
from slurmcast.policy.kappa import Kappas
from tests.unit.plan_world import CONFIGS, NOW, pending, snapshot

SOON = int(NOW) + 30
KAPPAS = Kappas(1e-4, {"a6000": 1e-3}, {"urgent": 0.0})
NUMBERS = st.integers(1, 6)

JOBS = st.builds(
    lambda job_id, times, gpus, at, fields, rest: replace(pending(job_id, *times, gpus, at, **fields), **rest),
    NUMBERS,
    st.tuples(st.sampled_from([None, 900.0, 3600.0]), st.sampled_from([None, 1000.0, 3700.0])),
    st.integers(1, 4),
    st.sampled_from(["a100", "a6000", "a100,a6000", "elsewhere"]),
    st.fixed_dictionaries(
        {
            "begin_time": st.sampled_from([0, SOON]),
            "site_factor": st.integers(0, 9),
            "qos": st.sampled_from(["", "urgent"]),
            "time_limit_s": st.sampled_from([None, 7300]),
        }
    ),
    st.fixed_dictionaries(
        {
            "grace_until": st.sampled_from([0, SOON]),
            "final": st.booleans(),
            "partition_named": st.booleans(),
            "original_partitions": st.sampled_from([(), ("a100",)]),
        }
    ),
)
QUEUES = st.dictionaries(NUMBERS, JOBS)


def with_jobs(now: Snapshot, jobs: dict[int, PendingJob]) -> Snapshot:
    """Those of the same number give way to the new ones."""
    own = {p.job.job_id: p for p in now.pending} | {p.job.job_id: p for p in jobs.values()}
    return replace(now, pending=tuple(own.values()))


STEPS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "nothing": lambda now: now,
    "time goes by": lambda now: replace(now, now=now.now + 31),
    "the clock is set back": lambda now: replace(now, now=now.now - 31),
    "GPUs come free": lambda now: replace(now, partitions=snapshot(a100=(4, 2), a6000=(1,)).partitions),
    "a partition goes down": lambda now: replace(
        now, partitions=(replace(now.partitions[0], up=False), *now.partitions[1:])
    ),
    "one is no longer managed": lambda now: replace(now, partitions=now.partitions[:1]),
    "both are": lambda now: replace(now, partitions=snapshot().partitions),
    "the oldest is gone": lambda now: replace(now, pending=now.pending[1:]),
    "the other way round": lambda now: replace(now, pending=now.pending[::-1]),
}


@given(
    st.lists(st.tuples(st.sampled_from(list(STEPS)), QUEUES, st.booleans()), min_size=2, max_size=5),
    st.sampled_from(CONFIGS),
)
def test_the_memo_never_shows(steps: list[tuple[str, dict[int, PendingJob], bool]], config: AgentConfig) -> None:
    memo, now = Memo(), snapshot(a100=(2,))
    for step, jobs, billing in steps:
        now = STEPS[step](with_jobs(now, jobs))
        config = replace(config, allow_higher_billing=billing)
        assert plan(now, KAPPAS, config, memo=memo) == plan(now, KAPPAS, config)


def test_only_jobs_that_are_new_are_looked_at() -> None:
    memo, jobs = Memo(), [pending(n) for n in range(1, 5)]
    before = memo.known(snapshot(*jobs), False)
    jobs = [replace(jobs[3], final=True), pending(9), *jobs[:2]]
    after = memo.known(snapshot(*jobs, a100=(3,)), False)
    assert [p.job.job_id for p in after.pending] == [1, 2, 4, 9]
    kept = [any(found is known for known in before.verdicts) for found in after.verdicts]
    assert kept == [True, True, False, False], "an equal job isn't the same object"
    assert memo.known(snapshot(), False).pending == []


def substance(decision: Decision) -> Decision:
    """Without what is told apart from it (:meth:`Decisions.lines`), and the moment."""
    return replace(decision, at=0.0, changed=False, rank=None, site_factor=None, priority=None)


@given(QUEUES, QUEUES, st.sampled_from(list(STEPS)), st.sampled_from(CONFIGS))
def test_marks_differ_where_decisions_do(
    jobs: dict[int, PendingJob], others: dict[int, PendingJob], step: str, config: AgentConfig
) -> None:
    now = with_jobs(snapshot(a100=(2,)), jobs)
    first, second = plan(now, KAPPAS, config), plan(STEPS[step](with_jobs(now, others)), KAPPAS, config)

    def told(result: Plan) -> dict[int, tuple[object, Decision]]:
        marks = zip(result.decisions.job_ids, result.decisions.marks(), result.decisions, strict=True)
        return {job_id: (mark, substance(decision)) for job_id, mark, decision in marks}

    before, after = told(first), told(second)
    for job_id in before.keys() & after.keys():
        (mark, decision), (other_mark, other) = before[job_id], after[job_id]
        assert (mark == other_mark) == (decision == other)
