"""``plan(snapshot, kappas, config) -> changes and decisions``: what the queue should look like, as a pure function.

Eligibility comes first, then the values and Algorithm 2 of the paper, then the translation to what Slurm understands:
a partition for each job, and a site factor (or priority) that puts the jobs into the policy's order. Jobs that fit now
stand above those that don't: Slurm's top job reserves, and must not block one that Algorithm 2 starts. One order over
all partitions gives each of them its own order too, since a site factor holds wherever the job is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from slurmcast.agent.factors import spread
from slurmcast.config import AgentConfig
from slurmcast.eligibility import eligible, gpus_per_node
from slurmcast.model import Change, Decision, May, Partition, PendingJob, Snapshot, Value, Verdict
from slurmcast.policy import patient, value
from slurmcast.policy.capacity import Capacity, Shape
from slurmcast.policy.kappa import Kappas

PIN_BASE = 1_000_000
"""With ``priority_mode = "pin"``, priorities start here: above what multifactor weights usually add up to."""

MOVE_GAIN = 0.1
"""A job that must wait anyway changes its partition only for a value better by this share, so that it doesn't flap."""


@dataclass(frozen=True)
class Plan:
    """What to send to Slurm, most urgent first, and what to remember about each pending job."""

    changes: tuple[Change, ...]
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class _Row:
    """A pending job on its way through the plan."""

    pending: PendingJob
    verdicts: tuple[Verdict, ...]
    candidates: tuple[str, ...] = ()
    """Where the job may be: all partitions to move to, else those that it has."""
    movable: bool = False
    values: tuple[Value, ...] = ()
    target: str = ""
    fits_now: bool = False
    v: float | None = None
    order: int | None = None
    """Place among all pending jobs, 0 first; ``rank`` is the place on its partition."""
    rank: int | None = None
    factor: int | None = None

    @classmethod
    def of(cls, pending: PendingJob, verdicts: tuple[Verdict, ...]) -> _Row:
        moves = tuple(verdict.partition for verdict in verdicts if verdict.may is May.MOVE)
        own = tuple(verdict.partition for verdict in verdicts if verdict.may is May.ORDER_ONLY)
        return cls(pending, verdicts, moves or own, bool(moves))

    @property
    def ours(self) -> bool:
        """Whether anything may be done with the job."""
        return bool(self.candidates)


def plan(snapshot: Snapshot, kappas: Kappas, config: AgentConfig) -> Plan:
    """The changes that bring Slurm's queue into the policy's order, and a decision for every pending job.

    At most ``config.max_updates`` changes: those that lift a grace first, then the jobs
    that fit now, then the others, each in the policy's order. Jobs whose better estimate is still being made are passed
    over while their grace lasts.
    """
    rows = [_Row.of(pending, _verdicts(pending, snapshot, config)) for pending in _ready(snapshot)]
    ours = [row for row in rows if row.ours]
    _assign(ours, snapshot, kappas, config.policy)
    for row in ours:
        row.target = row.target or _resting_place(row)
    _rank(ours, config)
    wanted = [(row, change) for row in rows if (change := _change(row, snapshot.now, config)) is not None]
    wanted.sort(key=lambda pair: (not pair[1].lift_grace, not pair[0].fits_now, pair[0].order or 0))
    changes = tuple(change for _, change in wanted[: config.max_updates])
    changed = {change.job_id for change in changes}
    decisions = (_decision(row, snapshot.now, config, row.pending.job.job_id in changed) for row in rows)
    return Plan(changes, tuple(decisions))


def _ready(snapshot: Snapshot) -> list[PendingJob]:
    """Pending jobs in the order of submission, without those whose estimate is on its way while their grace lasts."""
    ready = [p for p in snapshot.pending if p.final or p.grace_until <= snapshot.now]
    return sorted(ready, key=lambda p: (p.job.submit_time, p.job.job_id))


def _verdicts(pending: PendingJob, snapshot: Snapshot, config: AgentConfig) -> tuple[Verdict, ...]:
    estimates = {estimate.partition: estimate for estimate in pending.estimates}
    managed, billing = snapshot.partitions, config.allow_higher_billing
    return tuple(eligible(pending, p, managed, estimates.get(p.name), snapshot.now, billing) for p in managed)


def _assign(rows: list[_Row], snapshot: Snapshot, kappas: Kappas, policy: str) -> None:
    """Compute all v_ij and run Algorithm 2: sets ``values``, and ``target`` and ``fits_now`` where a job fits now."""
    columns = {partition.name: j for j, partition in enumerate(snapshot.partitions)}
    shape = (len(rows), len(columns))
    gpus, time_s, energy = np.ones(shape), np.full(shape, np.nan), np.full(shape, np.nan)
    for i, row in enumerate(rows):
        for estimate in row.pending.estimates:
            if estimate.partition in row.candidates and estimate.time_s is not None:
                j = columns[estimate.partition]
                gpus[i, j] = _gpus(row.pending, estimate.gpus, snapshot.partitions[j])
                time_s[i, j] = max(estimate.time_s.p50, 1.0)
                energy[i, j] = np.nan if estimate.energy_kwh is None else estimate.energy_kwh.p50
    kappa = kappas.matrix([row.pending.job.qos for row in rows], list(columns))
    v = value.values(gpus, time_s, energy, kappa)
    capacities = [Capacity(partition.nodes) for partition in snapshot.partitions]
    offered = patient.offered(v) if policy == "patient" else v
    assigned = value.assign(offered, [_shape(row.pending) for row in rows], capacities)
    names, missing = list(columns), np.isnan(energy)
    arrays = (gpus, time_s, energy, missing, kappa, v)
    for i, (row, a, t, e, gap, ks, vs) in enumerate(zip(rows, *(array.tolist() for array in arrays), strict=True)):
        row.values = tuple(
            Value(names[j], int(a[j]), t[j], None if gap[j] else e[j], ks[j], vs[j])
            for j in range(len(names))
            if vs[j] == vs[j]  # not NaN
        )
        if i in assigned:
            row.target, row.fits_now, row.v = names[assigned[i]], True, vs[assigned[i]]


def _gpus(pending: PendingJob, estimated: int, partition: Partition) -> int:
    """a_ij: the GPUs that the job occupies there; an exclusive job takes all of its nodes' (AllocTRES, not ReqTRES)."""
    job = pending.job
    if job.exclusive:
        return max(job.nodes * max((node.gpus for node in partition.nodes), default=1), 1)
    return max(job.gpus_total or estimated, 1)


def _shape(pending: PendingJob) -> Shape:
    job, request = pending.job, pending.job.gpus
    cpus = -(-job.cpus // max(job.nodes, 1))
    anywhere = request is not None and (request.per_job is not None or request.per_task is not None)
    per_node = None if anywhere else gpus_per_node(request, job.gpus_total, job.nodes)
    return Shape(job.gpus_total, job.nodes, per_node, cpus, job.memory_mb_per_node, job.exclusive)


def _resting_place(row: _Row) -> str:
    """Where a job waits that doesn't fit anywhere now: where it is, unless another partition is clearly better."""
    current = row.pending.job.partitions
    by_value = {value.partition: value.v for value in row.values}
    if not row.movable or not by_value:
        row.v = max(by_value.values(), default=None)
        return ",".join(current)
    best = max(by_value, key=lambda name: by_value[name])
    staying = by_value.get(current[0]) if len(current) == 1 else None
    if staying is not None and by_value[best] - staying <= MOVE_GAIN * abs(staying):
        best = current[0]
    row.v = by_value[best]
    return best


def _rank(rows: list[_Row], config: AgentConfig) -> None:
    """Order the jobs and give them factors: those that fit now, then the others, each by falling value; jobs whose
    value isn't known stand in the middle."""
    known = [(not row.fits_now, -row.v, row) for row in rows if row.v is not None]
    known.sort(key=lambda entry: entry[:2])
    middle = max(len(known) // 2, sum(row.fits_now for row in rows))
    order = [row for _, _, row in known]
    order[middle:middle] = [row for row in rows if row.v is None]
    ids = [row.pending.job.job_id for row in order]
    factors = spread(ids, {row.pending.job.job_id: _current_factor(row, config) for row in order}, config.band)
    places: Counter[str] = Counter()
    for place, row in enumerate(order):
        row.order, row.rank, row.factor = place, places[row.target], factors[row.pending.job.job_id]
        places[row.target] += 1


def _current_factor(row: _Row, config: AgentConfig) -> int:
    job = row.pending.job
    if config.priority_mode == "pin":
        return job.priority - PIN_BASE if row.pending.pinned_by_us else 0
    return job.site_factor


def _change(row: _Row, now: float, config: AgentConfig) -> Change | None:
    """The one update that the job needs, or None."""
    pending, job = row.pending, row.pending.job
    lift = pending.grace_until > now and job.begin_time == pending.grace_until
    if not row.ours:
        return Change(job.job_id, job.submit_time, _reason(row), lift_grace=True) if lift else None
    move = row.target != ",".join(job.partitions)
    reorder = row.factor is not None and row.factor != _current_factor(row, config)
    if not (lift or move or reorder):
        return None
    pin = config.priority_mode == "pin"
    return Change(
        job.job_id,
        job.submit_time,
        _reason(row),
        partition=row.target if move else None,
        site_factor=row.factor if reorder and not pin else None,
        priority=PIN_BASE + row.factor if reorder and pin and row.factor is not None else None,
        lift_grace=lift,
    )


def _reason(row: _Row) -> str:
    """One sentence for the user, or two."""
    if not row.ours:
        return f"Left alone: {row.verdicts[0].reason}" if row.verdicts else "slurmcast manages no partition."
    if row.v is None:
        return "How long the job will run isn't known, so it keeps its partition and a place in the middle."
    if not row.movable:
        only = next(verdict.reason for verdict in row.verdicts if verdict.may is May.ORDER_ONLY)
        return f"Ordered by its value on {row.target}. {only}"
    where = "fits there now" if row.fits_now else "waits there"
    others = [value.v for value in row.values if value.partition != row.target]
    if not others:
        elsewhere = [f"Not on {v.partition}: {v.reason}" for v in row.verdicts if v.partition != row.target]
        return " ".join([f"{row.target} is the only choice, and it {where}.", *elsewhere])
    if row.v >= max(others):
        return f"{row.target} has the best value for it, and it {where}."
    if row.fits_now:
        return f"It fits on {row.target} now; the partition of better value has no room."
    return f"It waits on {row.target}; another partition is hardly better."


def _decision(row: _Row, now: float, config: AgentConfig, changed: bool) -> Decision:
    job, pin = row.pending.job, config.priority_mode == "pin"
    return Decision(
        job.job_id,
        job.submit_time,
        now,
        row.target or ",".join(job.partitions),
        _reason(row),
        rank=row.rank,
        site_factor=None if pin else row.factor,
        priority=PIN_BASE + row.factor if pin and row.factor is not None else None,
        verdicts=row.verdicts,
        values=row.values,
        changed=changed,
    )
