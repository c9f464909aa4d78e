"""A plan does with a job only what user, request and time limit allow."""

from __future__ import annotations

from dataclasses import replace

from slurmcast.model import GpuRequest
from tests.unit.plan_world import CONFIG, apply, changes, decisions, order, pending, plan, snapshot


def test_a_list_is_narrowed_to_the_chosen_partition() -> None:
    listed = pending(1, 3600, 4000, at="a100,a6000")
    listed = replace(listed, allowed_partitions=("a100", "a6000"), original_partitions=())
    assert changes(plan(snapshot(listed, a6000=(1,)), 0.0, CONFIG))[1].partition == "a6000"
    assert changes(plan(snapshot(listed), 0.0, CONFIG))[1].partition == "a100"


def test_a_named_partition_is_kept_and_its_queue_ordered() -> None:
    now = snapshot(pending(1, 9000, 10, named=True), pending(2, 100, 10, named=True), a6000=(4,))
    result = plan(now, 0.0, CONFIG)
    assert all(change.partition is None for change in result.changes)
    assert order(apply(now, result)) == [2, 1]
    assert "named partition a100" in decisions(result)[1].reason


def test_a_typed_request_never_moves() -> None:
    typed = pending(1, 9000, 10, gpus=1)
    typed = replace(typed, job=replace(typed.job, gpus=GpuRequest(per_node=1, type="a100")))
    result = plan(snapshot(typed, a6000=(4,)), 0.0, CONFIG)
    assert changes(result)[1].partition is None


def test_a_job_is_not_left_where_its_time_limit_is_too_short() -> None:
    """At home the upper end of its time, 7200 s, is over the limit; on the other type it isn't."""
    result = plan(snapshot(pending(1, 3600, 3300, time_limit_s=6700)), 0.0, CONFIG)
    assert changes(result)[1].partition == "a6000"
    slow = plan(snapshot(pending(1, 3600, 3500, time_limit_s=6700), a6000=(4,)), 0.0, CONFIG)
    assert changes(slow)[1].partition is None
    assert changes(slow)[1].site_factor is not None


def test_left_alone_is_left_alone() -> None:
    kinds = {
        "held": {"priority": 0, "reason": "JobHeldUser"},
        "dependent": {"dependency": "afterok:3"},
        "pinned": {"pinned": True},
        "begin": {"begin_time": 2_000_000},
    }
    jobs = [pending(n, **fields) for n, fields in enumerate(kinds.values(), 1)]
    result = plan(snapshot(*jobs, a100=(4,), a6000=(4,)), 0.0, CONFIG)
    assert result.changes == ()
    assert all(d.reason.startswith("Left alone: ") and d.rank is None for d in result.decisions)


def test_an_exclusive_job_occupies_all_gpus_of_its_nodes() -> None:
    alone = pending(1, 3600, 3600, exclusive=True)
    result = plan(snapshot(alone, a100=(4,)), 0.0, CONFIG)
    assert [value.a for value in decisions(result)[1].values] == [4, 4]
    assert decisions(plan(snapshot(alone, a100=(3,)), 0.0, CONFIG))[1].partition == "a100"
    assert "waits" in decisions(plan(snapshot(alone, a100=(3,)), 0.0, CONFIG))[1].reason
