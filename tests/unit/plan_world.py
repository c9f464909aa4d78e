"""A small site to plan for: two partitions, jobs, and what a plan makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slurmcast.agent.plan import Plan
from slurmcast.agent.plan import plan as plan_by
from slurmcast.config import AgentConfig
from slurmcast.model import (
    Change,
    Decision,
    Estimate,
    GpuRequest,
    Interval,
    Job,
    Node,
    Partition,
    PendingJob,
    RunningJob,
    Snapshot,
    Source,
)
from slurmcast.policy.kappa import Kappas

NOW = 1_000_000.0
CONFIG = AgentConfig()
CONFIGS = (
    *(replace(CONFIG, policy=name) for name in ("value", "patient", "lookahead")),
    replace(CONFIG, policy="lookahead", longest_wait_h=0.0),
)


def partition(name: str, *free: int, gpus: int = 4, memory_gb: float = 48.0) -> Partition:
    nodes = tuple(Node(f"{name}-{n}", gpus, f, 32, 32, 64000, 64000) for n, f in enumerate(free))
    return Partition(name, name, nodes, memory_gb, default=name == "a100")


def pending(
    job_id: int,
    a100_s: float | None = 3600.0,
    a6000_s: float | None = 3600.0,
    gpus: int = 1,
    at: str = "a100",
    kwh: tuple[float | None, float | None] = (1.0, 1.0),
    named: bool = False,
    grace: int = 0,
    final: bool = True,
    **job: Any,
) -> PendingJob:
    times = {"a100": (a100_s, kwh[0]), "a6000": (a6000_s, kwh[1])}
    estimates = tuple(
        Estimate(
            name,
            gpus,
            None if t is None else Interval(t / 2, t, t * 2),
            None if e is None else Interval(e / 2, e, e * 2),
            Source.PROBE,
        )
        for name, (t, e) in times.items()
    )
    record = Job(job_id, "alice", 1000, "train", "PENDING", "Priority", tuple(at.split(",")), 900_000 + job_id)
    request = {"time_limit_s": 10**6, "priority": 1000, "gpus": GpuRequest(per_node=gpus), "gpus_total": gpus}
    record = replace(record, **{**request, **job})
    return PendingJob(record, estimates, final, named, original_partitions=("a100",), grace_until=grace)


def running(job_id: int, until_s: int, gpus: int = 1) -> RunningJob:
    """On a100, since half an hour."""
    job = Job(job_id, "alice", 1000, "train", "RUNNING", "", ("a100",), 0, start_time=int(NOW) - 1800, gpus_total=gpus)
    time_s = Interval(until_s + 1000, until_s + 1800, until_s + 2000)
    return RunningJob(replace(job, time_limit_s=10**5), replace(pending(job_id).estimates[0], time_s=time_s))


def snapshot(*jobs: PendingJob, a100: tuple[int, ...] = (0,), a6000: tuple[int, ...] = (0,)) -> Snapshot:
    return Snapshot(NOW, (partition("a100", *a100), partition("a6000", *a6000)), jobs)


def changes(result: Plan) -> dict[int, Change]:
    return {change.job_id: change for change in result.changes}


def decisions(result: Plan) -> dict[int, Decision]:
    return {decision.job_id: decision for decision in result.decisions}


def apply(now: Snapshot, result: Plan) -> Snapshot:
    """The snapshot after Slurm made the changes."""
    made = changes(result)
    jobs = []
    for p in now.pending:
        change = made.get(p.job.job_id, Change(p.job.job_id, p.job.submit_time, ""))
        partitions = tuple(change.partition.split(",")) if change.partition else p.job.partitions
        factor = p.job.site_factor if change.site_factor is None else change.site_factor
        priority = p.job.priority if change.priority is None else change.priority
        begin = int(now.now) if change.lift_grace else p.job.begin_time
        record = replace(p.job, partitions=partitions, site_factor=factor, priority=priority, begin_time=begin)
        jobs.append(replace(p, job=record, pinned_by_us=p.pinned_by_us or change.priority is not None))
    return replace(now, pending=tuple(jobs))


def plan(now: Snapshot, kappa: float, config: AgentConfig) -> Plan:
    """With one kappa for all jobs."""
    return plan_by(now, Kappas(kappa), config)


def order(now: Snapshot) -> list[int]:
    return [p.job.job_id for p in sorted(now.pending, key=lambda p: -p.job.site_factor)]
