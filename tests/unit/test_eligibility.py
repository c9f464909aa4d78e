"""What may be done with each kind of job: one line per kind, as in docs/eligibility.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmcast import eligibility
from slurmcast.eligibility import billing
from slurmcast.model import Estimate, GpuRequest, Interval, Job, May, Node, Partition, PendingJob, Source, Verdict

NOW = 1_000_000.0
MOVE, ORDER, LEAVE = May.MOVE, May.ORDER_ONLY, May.LEAVE_ALONE


def nodes(name: str, gpus: int, **fields: Any) -> tuple[Node, ...]:
    return tuple(Node(f"{name}-{n}", gpus, gpus, 32, 32, 64000, 64000, frozenset({name}), **fields) for n in (1, 2))


A100 = Partition("a100", "a100", nodes("a100", 2), 40.0, default=True, max_time_s=86400)
A6000 = Partition("a6000", "a6000", nodes("a6000", 4), 48.0, max_time_s=86400)
JOB = Job(
    7,
    "alice",
    1000,
    "train",
    "PENDING",
    "Priority",
    ("a100",),
    999_000,
    account="research",
    qos="normal",
    time_limit_s=7200,
    priority=1000,
    cpus=4,
    memory_mb_per_node=8000,
    gpus=GpuRequest(per_node=1),
    gpus_total=1,
    groups=frozenset({"research"}),
)
PLAIN = PendingJob(JOB, partition_named=False)
LISTED = PendingJob(replace(JOB, partitions=("a100", "a6000")), allowed_partitions=("a100", "a6000"))


def estimate(partition: str, p90: float = 3600.0, memory_gb: float | None = None) -> Estimate:
    memory = None if memory_gb is None else Interval(memory_gb, memory_gb, memory_gb)
    return Estimate(partition, 1, Interval(p90 / 3, p90 / 2, p90), None, Source.PROBE, memory)


def job(**fields: Any) -> PendingJob:
    return replace(PLAIN, job=replace(JOB, **fields))


def eligible(
    pending: PendingJob,
    target: Partition,
    managed: tuple[Partition, ...],
    at_target: Estimate | None,
    now: float,
    higher_billing: bool = False,
) -> Verdict:
    """What may be done with the job on ``target``, given what is expected of it there."""
    known = replace(pending, estimates=() if at_target is None else (at_target,))
    answers = eligibility.verdicts(known, managed, now, higher_billing)
    assert [verdict.partition for verdict in answers] == [partition.name for partition in managed]
    return answers[[partition.name for partition in managed].index(target.name)]


def verdicts(
    pending: PendingJob,
    home: Partition = A100,
    other: Partition = A6000,
    at_other: Estimate | None = None,
    higher_billing: bool = False,
) -> tuple[tuple[May, May], str]:
    """What may be done at home and on the other partition, and all that is said about it."""
    managed = (home, other)
    both = [
        eligible(pending, home, managed, estimate(home.name), NOW, higher_billing),
        eligible(pending, other, managed, at_other or estimate(other.name), NOW, higher_billing),
    ]
    return (both[0].may, both[1].may), " ".join(v.reason for v in both)


# kind: (job, (may be done at home, on the other partition), a word of the reason)
KINDS: dict[str, tuple[PendingJob, tuple[May, May], str]] = {
    "no partition named": (PLAIN, (MOVE, MOVE), "fits here"),
    "several partitions": (LISTED, (MOVE, MOVE), "without slurmcast"),
    "one partition named": (replace(PLAIN, partition_named=True), (ORDER, LEAVE), "named partition a100"),
    "opted in": (replace(PLAIN, partition_named=True, opted_in=True), (MOVE, MOVE), "fits here"),
    "array": (job(is_array=True, array_job_id=7), (MOVE, MOVE), "fits here"),
    "typed GPUs": (job(gpus=GpuRequest(per_node=1, type="a100")), (ORDER, LEAVE), "one type"),
    "shared GPU": (job(gpus=GpuRequest(per_node=1, shared=True)), (ORDER, LEAVE), "shares its GPU"),
    "shard only": (job(gpus=GpuRequest(shared=True), gpus_total=0), (ORDER, LEAVE), "shares its GPU"),
    "nodes named": (job(required_nodes="a100-1"), (ORDER, LEAVE), "named nodes"),
    "deadline": (job(deadline=2_000_000), (ORDER, LEAVE), "deadline"),
    "opted out": (replace(PLAIN, opted_out=True), (LEAVE, LEAVE), "opted out"),
    "running": (job(state="RUNNING"), (LEAVE, LEAVE), "is running"),
    "no GPU": (job(gpus=None, gpus_total=0), (LEAVE, LEAVE), "no GPUs"),
    "srun or salloc": (job(batch=False), (LEAVE, LEAVE), "no batch script"),
    "held by the user": (job(priority=0, reason="JobHeldUser"), (LEAVE, LEAVE), "held"),
    "held by an admin": (job(priority=0, reason="JobHeldAdmin"), (LEAVE, LEAVE), "held"),
    "heterogeneous": (job(het_job_id=6), (LEAVE, LEAVE), "heterogeneous"),
    "federated": (job(federated=True), (LEAVE, LEAVE), "siblings"),
    "reservation": (job(reservation="maint"), (LEAVE, LEAVE), "reservation maint"),
    "dependent": (job(dependency="afterok:5", reason="Dependency"), (LEAVE, LEAVE), "waits for other jobs"),
    "dependency never satisfied": (job(reason="DependencyNeverSatisfied"), (LEAVE, LEAVE), "waits for other jobs"),
    "begin time": (job(begin_time=2_000_000), (LEAVE, LEAVE), "begin time"),
    "our own grace": (replace(job(begin_time=1_000_008), grace_until=1_000_008), (MOVE, MOVE), "fits here"),
    "begin time of the past": (job(begin_time=999_000), (MOVE, MOVE), "fits here"),
    "priority set by an admin": (job(pinned=True), (LEAVE, LEAVE), "by hand"),
    "priority set by us": (replace(job(pinned=True), pinned_by_us=True), (MOVE, MOVE), "fits here"),
    "QOS limit": (job(reason="QOSGrpGRES"), (LEAVE, LEAVE), "QOSGrpGRES"),
    "association limit": (job(reason="AssocMaxJobsLimit"), (LEAVE, LEAVE), "AssocMaxJobsLimit"),
    "MaxJobs": (job(reason="MaxJobsPerAccount"), (LEAVE, LEAVE), "A limit"),
    "time limit over the partition's": (job(reason="PartitionTimeLimit"), (LEAVE, LEAVE), "A limit"),
    "array throttle": (job(is_array=True, reason="JobArrayTaskLimit"), (LEAVE, LEAVE), "A limit"),
    "licences": (job(reason="Licenses"), (LEAVE, LEAVE), "A limit"),
    "partition not managed": (job(partitions=("cpu",)), (LEAVE, LEAVE), "doesn't manage partition cpu"),
    "account not allowed": (job(account="guests"), (MOVE, LEAVE), "Account guests"),
    "QOS not allowed": (job(qos="short"), (MOVE, LEAVE), "QOS short"),
    "group not allowed": (job(groups=frozenset({"guests"})), (MOVE, LEAVE), "groups"),
    "too many nodes": (job(nodes=2, gpus_total=2), (MOVE, LEAVE), "at most 1 node"),
    "too many GPUs a node": (job(gpus=GpuRequest(per_node=8), gpus_total=8), (MOVE, LEAVE), "no node with 8 GPUs"),
    "too many GPUs in one": (job(gpus=GpuRequest(per_job=8), gpus_total=8), (MOVE, LEAVE), "no node with 8 GPUs"),
    "too many CPUs": (job(cpus=64), (MOVE, LEAVE), "no node with 64 CPUs"),
    "too much memory": (job(memory_mb_per_node=99000), (MOVE, LEAVE), "enough memory"),
    "feature missing": (job(features="a100"), (MOVE, LEAVE), "no node with feature a100"),
    "feature there": (job(features="a100|a6000"), (MOVE, MOVE), "fits here"),
    "features of two kinds": (job(features="[a100*1&a6000*1]"), (MOVE, LEAVE), "feature [a100"),
}
STRICT = replace(
    A6000, max_nodes=1, deny_accounts=frozenset({"guests"}), deny_qos=frozenset({"short"}), allow_groups=JOB.groups
)


@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind: str) -> None:
    pending, may, word = KINDS[kind]
    found, reasons = verdicts(pending, other=STRICT)
    assert found == may
    assert word in reasons


# kind of partition: (the other partition, may be done there, a word of the reason)
PARTITIONS: dict[str, tuple[Partition, May, str]] = {
    "down": (replace(A6000, up=False), LEAVE, "not up"),
    "account not listed": (replace(A6000, allow_accounts=frozenset({"x"})), LEAVE, "Account research"),
    "account listed": (replace(A6000, allow_accounts=frozenset({"research"})), MOVE, "fits"),
    "QOS not listed": (replace(A6000, allow_qos=frozenset({"x"})), LEAVE, "QOS normal"),
    "root only": (replace(A6000, root_only=True), LEAVE, "Only root"),
    "reservations only": (replace(A6000, reservation_required=True), LEAVE, "reservation only"),
    "less GPU memory": (replace(A6000, gpu_memory_gb=24.0), LEAVE, "only 24 GB"),
    "GPU memory not known": (replace(A6000, gpu_memory_gb=None), LEAVE, "not configured"),
    "all nodes drained": (replace(A6000, nodes=nodes("a6000", 4, usable=False)), LEAVE, "neither down, drained"),
    "time limit over MaxTime": (replace(A6000, max_time_s=5400), LEAVE, "longer than"),
    "dearer": (replace(A6000, billing_weights=(("cpu", 1.0), ("gres/gpu", 2.0))), LEAVE, "billed more"),
    "as dear": (replace(A6000, billing_weights=(("gres/gpu", 4.0),)), MOVE, "fits"),
}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partition(kind: str) -> None:
    other, may, word = PARTITIONS[kind]
    found, reasons = verdicts(PLAIN, other=other)
    assert found == (MOVE, may)
    assert word in reasons


def test_higher_billing_can_be_allowed() -> None:
    dear = replace(A6000, billing_weights=(("gres/gpu", 99.0),))
    assert verdicts(PLAIN, other=dear, higher_billing=True)[0] == (MOVE, MOVE)


def test_billing_is_slurms_weighted_sum() -> None:
    weights = (("cpu", 1.0), ("mem", 0.25), ("gres/gpu", 2.0))
    wide = replace(JOB, cpus=8, nodes=2, memory_mb_per_node=4096, gpus_total=4)
    assert billing(wide, replace(A100, billing_weights=weights)) == 8 + 0.25 * 8 + 2 * 4
    assert billing(wide, A100) == 8


def test_unknown_time_keeps_the_job_at_home() -> None:
    unknown = Estimate("a6000", 1, None, None, Source.UNKNOWN)
    for at_other in (unknown, None):
        verdict = eligible(PLAIN, A6000, (A100, A6000), at_other, NOW)
        assert (verdict.may, "not known" in verdict.reason) == (LEAVE, True)
        assert eligible(PLAIN, A100, (A100, A6000), at_other, NOW).may is MOVE


def test_time_limit_too_short_for_the_other_type() -> None:
    found, reasons = verdicts(PLAIN, at_other=estimate("a6000", 7300))
    assert found == (MOVE, LEAVE)
    assert "122 min there" in reasons
    assert "limit of 120 min" in reasons


def test_a_job_without_time_limit_must_fit_the_partitions() -> None:
    unlimited = job(time_limit_s=None)
    assert verdicts(unlimited, other=replace(A6000, max_time_s=5400))[0] == (MOVE, MOVE)
    assert verdicts(unlimited, other=replace(A6000, max_time_s=3000))[0] == (MOVE, LEAVE)


def test_time_limit_too_short_at_home_is_no_reason_to_leave_it_unordered() -> None:
    managed = (A100, A6000)
    home = eligible(PLAIN, A100, managed, estimate("a100", 7300), NOW)
    assert home.may is ORDER
    moved = replace(job(partitions=("a6000",)), original_partitions=("a100",))
    assert eligible(moved, A100, managed, estimate("a100", 7300), NOW).may is ORDER
    assert eligible(moved, A6000, managed, estimate("a6000", 7300), NOW).may is LEAVE


def test_estimated_memory_opens_a_smaller_gpu() -> None:
    small = replace(A6000, gpu_memory_gb=24.0)
    assert verdicts(PLAIN, other=small, at_other=estimate("a6000", memory_gb=20.0))[0] == (MOVE, MOVE)
    assert verdicts(PLAIN, other=small, at_other=estimate("a6000", memory_gb=30.0))[0] == (MOVE, LEAVE)


def test_list_is_kept_after_it_was_narrowed() -> None:
    third = replace(A6000, name="h100", gpu_memory_gb=80.0)
    narrowed = replace(LISTED, job=replace(LISTED.job, partitions=("a6000",)), original_partitions=("a100", "a6000"))
    managed = (A100, A6000, third)
    may = {part.name: eligible(narrowed, part, managed, estimate(part.name), NOW).may for part in managed}
    assert may == {"a100": MOVE, "a6000": MOVE, "h100": LEAVE}


def test_what_counts_is_the_partition_without_us() -> None:
    """A job that was moved from 40 GB to 48 GB may go back, and one of 48 GB by itself may not go to 40 GB."""
    moved = replace(job(partitions=("a6000",)), original_partitions=("a100",))
    assert verdicts(moved)[0] == (MOVE, MOVE)
    own = job(partitions=("a6000",))
    assert eligible(own, A100, (A100, A6000), estimate("a100"), NOW).may is LEAVE


def test_every_reason_is_a_sentence() -> None:
    for kind, (pending, _, _) in KINDS.items():
        for target in (A100, STRICT):
            reason = eligible(pending, target, (A100, STRICT), estimate(target.name), NOW).reason
            assert reason.endswith("."), kind
            assert reason[0].isupper() or reason.startswith("slurmcast"), kind
