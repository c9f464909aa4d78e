"""What may be done with a job on a partition, and why: decided before any value is computed (docs/eligibility.md).

Pure functions. The order of the checks is fixed, so that the same job always gets the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

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
MOVE, ORDER_ONLY, LEAVE_ALONE = May.MOVE, May.ORDER_ONLY, May.LEAVE_ALONE  # an enum takes long to look them up


def leave_alone(pending: PendingJob, now: float) -> str | None:
    """Why nothing at all may be done with the job, or None."""
    job = pending.job
    if pending.opted_out:
        return "The user opted out of slurmcast."
    if job.state != "PENDING":
        return f"The job is {job.state.lower()}."
    if not job.gpus_total and job.gpus is None:
        return "The job asks for no GPUs."
    if not job.batch:
        return "The job has no batch script (srun or salloc)."
    if job.priority == 0 or job.reason.startswith("JobHeld"):
        return "The job is held."
    if job.het_job_id:
        return "The job is part of a heterogeneous job."
    if job.federated:
        return "The job has siblings on other clusters of the federation."
    if job.reservation:
        return f"The job runs in reservation {job.reservation}."
    if job.dependency or job.reason.startswith("Dependency"):
        return "The job waits for other jobs."
    if job.begin_time > now and job.begin_time != pending.grace_until:
        return "The job has a begin time that slurmcast didn't set."
    if job.pinned and not pending.pinned_by_us:
        return "An admin set the job's priority by hand."
    if job.reason.startswith(LIMIT_REASONS):
        return f"A limit keeps the job waiting ({job.reason}), not its place in the queue."
    return None


def order_only(pending: PendingJob) -> str | None:
    """Why the job must stay on the partitions that it has, or None."""
    job = pending.job
    if pending.partition_named and len(pending.allowed_partitions) < 2 and not pending.opted_in:
        return f"The user named partition {','.join(pending.own_partitions)}."
    if job.gpus is not None and job.gpus.type is not None:
        return "The user asked for GPUs of one type."
    if job.gpus is not None and job.gpus.shared:
        return "The job shares its GPU with others (MIG, MPS or shard)."
    if job.required_nodes:
        return "The user named nodes."
    if job.deadline:
        return "The job has a deadline."
    return None


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
    if _barred(job.account, target.allow_accounts, target.deny_accounts):
        return f"Account {job.account} may not use it."
    if _barred(job.qos, target.allow_qos, target.deny_qos):
        return f"QOS {job.qos} may not be used there."
    if target.allow_groups is not None and not job.groups & target.allow_groups:
        return "None of the user's groups may use it."
    if target.root_only:
        return "Only root may use it."
    if target.reservation_required:
        return "It takes jobs with a reservation only."
    if target.max_nodes is not None and job.nodes > target.max_nodes:
        return f"It allows at most {target.max_nodes} node(s)."
    longest = target.max_time_s
    if longest is not None and job.time_limit_s is not None and job.time_limit_s > longest:
        return f"The job's time limit is longer than the {longest / 60:.0f} min that it allows."
    return None


def _barred(name: str, allowed: frozenset[str] | None, denied: frozenset[str]) -> bool:
    return name in denied or (allowed is not None and name not in allowed)


def gpus_per_node(request: GpuRequest | None, total: int, nodes: int) -> int:
    """GPUs that the job needs on its fullest node, at least."""
    if request is not None and request.per_node is not None:
        return request.per_node
    return -(-total // max(nodes, 1))


_CHECKS: tuple[tuple[Callable[[Job, int, int, Node], bool], str], ...] = (
    (lambda _job, gpus, _cpus, node: node.gpus >= gpus, "with {gpus} GPUs"),
    (lambda _job, _gpus, cpus, node: node.cpus >= cpus, "with {cpus} CPUs"),
    (lambda job, _gpus, _cpus, node: node.memory_mb >= job.memory_mb_per_node, "with enough memory"),
    (lambda job, _gpus, _cpus, node: _has_features(job.features, node.features), "with feature {features}"),
    (lambda _job, _gpus, _cpus, node: node.usable, "that fits and is neither down, drained nor reserved"),
)
"""What a node must have, and how to say that it hasn't."""


def _misfit(job: Job, target: Partition) -> str | None:
    gpus = gpus_per_node(job.gpus, job.gpus_total, job.nodes)
    cpus = -(-job.cpus // max(job.nodes, 1))
    fitting = 0
    for node in target.nodes:
        for check, _ in _CHECKS:
            if not check(job, gpus, cpus, node):
                break
        else:
            fitting += 1
            if fitting >= job.nodes:
                return None
    nodes = list(target.nodes)
    for check, what in _CHECKS:
        nodes = [node for node in nodes if check(job, gpus, cpus, node)]
        if len(nodes) < job.nodes:
            count = "node" if job.nodes == 1 else f"{job.nodes} nodes"
            return f"It has no {count} {what.format(gpus=gpus, cpus=cpus, features=job.features)}."
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
    sizes = [part.gpu_memory_gb for part in own if part.gpu_memory_gb is not None]
    if target.gpu_memory_gb is None or not sizes or len(sizes) < len(own):
        return "How much memory its GPUs have is not configured."
    if target.gpu_memory_gb < min(sizes):
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
    if not allow and own and billing(job, target) > max([billing(job, part) for part in own]):
        return "The job would be billed more there."
    return None


def verdicts(
    pending: PendingJob, managed: Sequence[Partition], now: float, allow_higher_billing: bool = False
) -> tuple[Verdict, ...]:
    """What may be done with the job on each of the partitions that slurmcast manages.

    MOVE: the job may be put there; ORDER_ONLY: it may be ordered there, its own place, but no choice is to be made for
    it; LEAVE_ALONE: nothing may be done with it there.
    """
    names = pending.own_partitions
    own = [part for part in managed if part.name in names]
    if (reason := leave_alone(pending, now) or _unmanaged(names, own)) is not None:
        return tuple([_verdict(target.name, LEAVE_ALONE, reason) for target in managed])
    if (reason := order_only(pending)) is not None:
        here = pending.job.partitions
        return tuple(
            [_verdict(part.name, ORDER_ONLY if part.name in here else LEAVE_ALONE, reason) for part in managed]
        )
    estimates = {estimate.partition: estimate for estimate in pending.estimates}
    found = []
    for target in managed:
        home = target.name in names
        reason = unfit(pending, target, own, estimates.get(target.name), allow_higher_billing)
        if reason is not None:
            found.append(_verdict(target.name, ORDER_ONLY if home else LEAVE_ALONE, reason))
        else:
            why = "The job would run here without slurmcast." if home else "The job fits here."
            found.append(_verdict(target.name, MOVE, why))
    return tuple(found)


@lru_cache(maxsize=1024)
def _verdict(partition: str, may: May, reason: str) -> Verdict:
    """One object for the many jobs of which the same is said."""
    return Verdict(partition, may, reason)


def _unmanaged(names: Sequence[str], own: Sequence[Partition]) -> str | None:
    if len(own) >= len(names):
        return None
    managed = [part.name for part in own]
    outside = [name for name in names if name not in managed]
    return f"slurmcast doesn't manage partition {', '.join(outside)}." if outside else None
