"""What may be done with a job on a partition, and why: decided before any value is computed (docs/eligibility.md).

Pure functions. The order of the checks is fixed, so that the same job always gets the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from slurmcast.model import Estimate, GpuRequest, Job, May, Node, Partition, PendingJob, Verdict

LIMIT_REASONS = (
    "QOS",
    "Assoc",
    "Max",
    "Grp",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "JobArrayTaskLimit",
    "Licenses",
    "AccountNotAllowed",
)
"""Beginnings of the state reasons that mean: a limit, not the order, keeps the job waiting (man squeue)."""


def leave_alone(pending: PendingJob, now: float) -> str | None:
    """Why nothing at all may be done with the job, or None."""
    job = pending.job
    limited = job.reason.startswith(LIMIT_REASONS)
    own_begin = job.begin_time > now and job.begin_time != pending.grace_until
    reasons = (
        (pending.opted_out, "The user opted out of slurmcast."),
        (job.state != "PENDING", f"The job is {job.state.lower()}."),
        (not job.gpus_total and job.gpus is None, "The job asks for no GPUs."),
        (not job.batch, "The job has no batch script (srun or salloc)."),
        (job.priority == 0 or job.reason.startswith("JobHeld"), "The job is held."),
        (bool(job.het_job_id), "The job is part of a heterogeneous job."),
        (job.federated, "The job has siblings on other clusters of the federation."),
        (bool(job.reservation), f"The job runs in reservation {job.reservation}."),
        (bool(job.dependency) or job.reason.startswith("Dependency"), "The job waits for other jobs."),
        (own_begin, "The job has a begin time that slurmcast didn't set."),
        (job.pinned and not pending.pinned_by_us, "An admin set the job's priority by hand."),
        (limited, f"A limit keeps the job waiting ({job.reason}), not its place in the queue."),
    )
    return next((reason for applies, reason in reasons if applies), None)


def order_only(pending: PendingJob) -> str | None:
    """Why the job must stay on the partitions that it has, or None."""
    job = pending.job
    named = pending.partition_named and len(pending.allowed_partitions) < 2 and not pending.opted_in
    reasons = (
        (named, f"The user named partition {','.join(pending.own_partitions)}."),
        (job.gpus is not None and job.gpus.type is not None, "The user asked for GPUs of one type."),
        (job.gpus is not None and job.gpus.shared, "The job shares its GPU with others (MIG, MPS or shard)."),
        (bool(job.required_nodes), "The user named nodes."),
        (bool(job.deadline), "The job has a deadline."),
    )
    return next((reason for applies, reason in reasons if applies), None)


def unfit(
    pending: PendingJob,
    target: Partition,
    own: Sequence[Partition],
    estimate: Estimate | None,
    allow_higher_billing: bool = False,
) -> str | None:
    """Why ``target`` is no choice for the job, or None. ``own``: the partitions that it would have without us."""
    job = pending.job
    if pending.allowed_partitions and not pending.opted_in and target.name not in pending.allowed_partitions:
        return f"The user listed {', '.join(pending.allowed_partitions)} only."
    if not target.up:
        return "The partition is not up."
    if target.name in pending.own_partitions:  # Slurm took the job there: only the time may speak against it
        return _too_slow(job, target, estimate)
    return (
        _forbidden(job, target)
        or _misfit(job, target)
        or _less_memory(target, own, estimate)
        or _unknown_time(estimate)
        or _too_slow(job, target, estimate)
        or _dearer(job, target, own, allow_higher_billing)
    )


def _forbidden(job: Job, target: Partition) -> str | None:
    accounts, qos, groups = target.allow_accounts, target.allow_qos, target.allow_groups
    longest = target.max_time_s
    too_long = longest is not None and job.time_limit_s is not None and job.time_limit_s > longest
    reasons = (
        (accounts is not None and job.account not in accounts, f"Account {job.account} may not use it."),
        (job.account in target.deny_accounts, f"Account {job.account} may not use it."),
        (qos is not None and job.qos not in qos, f"QOS {job.qos} may not be used there."),
        (job.qos in target.deny_qos, f"QOS {job.qos} may not be used there."),
        (groups is not None and not job.groups & groups, "None of the user's groups may use it."),
        (target.root_only, "Only root may use it."),
        (target.reservation_required, "It takes jobs with a reservation only."),
        (
            target.max_nodes is not None and job.nodes > target.max_nodes,
            f"It allows at most {target.max_nodes} node(s).",
        ),
        (too_long, f"The job's time limit is longer than the {(longest or 0) / 60:.0f} min that it allows."),
    )
    return next((reason for applies, reason in reasons if applies), None)


def gpus_per_node(request: GpuRequest | None, total: int, nodes: int) -> int:
    """GPUs that the job needs on its fullest node, at least."""
    if request is not None and request.per_node is not None:
        return request.per_node
    return -(-total // max(nodes, 1))


def _misfit(job: Job, target: Partition) -> str | None:
    gpus = gpus_per_node(job.gpus, job.gpus_total, job.nodes)
    cpus = -(-job.cpus // max(job.nodes, 1))
    checks: tuple[tuple[Callable[[Node], bool], str], ...] = (
        (lambda n: n.usable and n.gpus >= gpus, f"with {gpus} GPUs"),
        (lambda n: n.cpus >= cpus, f"with {cpus} CPUs"),
        (lambda n: n.memory_mb >= job.memory_mb_per_node, "with enough memory"),
        (lambda n: _has_features(job.features, n.features), f"with feature {job.features}"),
    )
    fitting = (node for node in target.nodes if all(check(node) for check, _ in checks))
    if len(list(islice(fitting, job.nodes))) >= job.nodes:
        return None
    nodes = list(target.nodes)
    for check, what in checks:
        nodes = [node for node in nodes if check(node)]
        if len(nodes) < job.nodes:
            return f"It has no {'node' if job.nodes == 1 else f'{job.nodes} nodes'} {what}."
    return None


def _has_features(wanted: str, features: frozenset[str]) -> bool:
    """Slurm's ``a&b`` and ``a|b``; anything richer (counts, brackets, ``!``) is not understood and so doesn't fit."""
    if not wanted:
        return True
    if any(mark in wanted for mark in "*[](){}!"):
        return False
    return any(all(name in features for name in part.split("&")) for part in wanted.replace(",", "&").split("|"))


def _less_memory(target: Partition, own: Sequence[Partition], estimate: Estimate | None) -> str | None:
    peak = estimate.gpu_memory_gb if estimate else None
    if peak is not None and target.gpu_memory_gb is not None and peak.p90 <= target.gpu_memory_gb:
        return None
    sizes = [part.gpu_memory_gb for part in own]
    if target.gpu_memory_gb is None or not sizes or any(size is None for size in sizes):
        return "How much memory its GPUs have is not configured."
    if target.gpu_memory_gb < min(size for size in sizes if size is not None):
        return f"Its GPUs have only {target.gpu_memory_gb:g} GB."
    return None


def _unknown_time(estimate: Estimate | None) -> str | None:
    if estimate is None or estimate.time_s is None:
        return "How long the job would run there is not known."
    return None


def _too_slow(job: Job, target: Partition, estimate: Estimate | None) -> str | None:
    if estimate is None or estimate.time_s is None:
        return None
    upper = estimate.time_s.p90
    if job.time_limit_s is not None and upper > job.time_limit_s:
        return (
            f"It might take {upper / 60:.0f} min there, more than the job's limit of {job.time_limit_s / 60:.0f} min."
        )
    if target.max_time_s is not None and upper > target.max_time_s:
        return f"It might take {upper / 60:.0f} min, longer than the partition allows."
    return None


def billing(job: Job, partition: Partition) -> float:
    """What Slurm bills for the job's request there: the weighted sum of its TRES, or its CPUs (man slurm.conf)."""
    if not partition.billing_weights:
        return float(job.cpus)
    memory_gb = job.memory_mb_per_node * job.nodes / 1024
    amounts = {"cpu": job.cpus, "mem": memory_gb, "node": job.nodes, "gres/gpu": job.gpus_total}
    return sum(weight * amounts.get(name, 0) for name, weight in partition.billing_weights)


def _dearer(job: Job, target: Partition, own: Sequence[Partition], allow: bool) -> str | None:
    if not allow and own and billing(job, target) > max(billing(job, part) for part in own):
        return "The job would be billed more there."
    return None


def eligible(
    pending: PendingJob,
    target: Partition,
    managed: Sequence[Partition],
    estimate: Estimate | None,
    now: float,
    allow_higher_billing: bool = False,
) -> Verdict:
    """What may be done with the job on ``target``.

    ``managed``: all partitions that slurmcast manages. MOVE: the job may be put there; ORDER_ONLY: it may be ordered
    there, its own place, but no choice is to be made for it; LEAVE_ALONE: nothing may be done with it there.
    """
    reason = leave_alone(pending, now) or _unmanaged(pending, managed)
    if reason is not None:
        return Verdict(target.name, May.LEAVE_ALONE, reason)
    here = target.name in pending.job.partitions
    if (reason := order_only(pending)) is not None:
        return Verdict(target.name, May.ORDER_ONLY if here else May.LEAVE_ALONE, reason)
    own = [part for part in managed if part.name in pending.own_partitions]
    if (reason := unfit(pending, target, own, estimate, allow_higher_billing)) is not None:
        home = target.name in pending.own_partitions
        return Verdict(target.name, May.ORDER_ONLY if home else May.LEAVE_ALONE, reason)
    if target.name in pending.own_partitions:
        return Verdict(target.name, May.MOVE, "The job would run here without slurmcast.")
    return Verdict(target.name, May.MOVE, "The job fits here.")


def _unmanaged(pending: PendingJob, managed: Sequence[Partition]) -> str | None:
    names = {part.name for part in managed}
    outside = [name for name in pending.own_partitions if name not in names]
    return f"slurmcast doesn't manage partition {', '.join(outside)}." if outside else None
