"""``plan(snapshot, kappa, config) -> changes and decisions``: what the queue should look like, as a pure function.

Eligibility comes first, then the values and Algorithm 2 of the paper, then the translation to what Slurm understands:
a partition for each job, and a site factor (or priority) that puts the jobs of each partition into the policy's order.
Jobs that fit now stand above those that don't: Slurm's top job reserves, and must not block what Algorithm 2 starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slurmcast.agent.factors import spread
from slurmcast.config import AgentConfig
from slurmcast.eligibility import eligible, gpus_per_node
from slurmcast.model import Change, Decision, May, PendingJob, Snapshot, Value, Verdict
from slurmcast.policy import value
from slurmcast.policy.capacity import Capacity, Shape

PIN_BASE = 1_000_000
"""With ``priority_mode = "pin"``, priorities start here: above what multifactor weights usually add up to."""

MOVE_GAIN = 0.1
"""A job that must wait anyway changes its partition only for a value better by this share."""


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
    values: tuple[Value, ...] = ()
    target: str = ""
    fits_now: bool = False
    v: float | None = None
    rank: int | None = None
    factor: int | None = None

    @property
    def may_change(self) -> bool:
        return any(verdict.may is not May.LEAVE_ALONE for verdict in self.verdicts)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Where the job may be: all partitions to move to, else those that it has."""
        moves = tuple(verdict.partition for verdict in self.verdicts if verdict.may is May.MOVE)
        return moves or tuple(v.partition for v in self.verdicts if v.may is May.ORDER_ONLY)

    @property
    def movable(self) -> bool:
        return any(verdict.may is May.MOVE for verdict in self.verdicts)


def plan(snapshot: Snapshot, kappa: float, config: AgentConfig) -> Plan:
    """The changes that bring Slurm's queue into the policy's order, and a decision for every pending job.

    ``kappa`` in 1/(GPU s kWh). At most ``config.max_updates`` changes: those that lift a grace first, then moves, then
    order.
    Jobs whose better estimate is still being made are passed over while their grace lasts.
    """
    rows = [_Row(pending, _verdicts(pending, snapshot, config)) for pending in _ready(snapshot)]
    ours = [row for row in rows if row.may_change]
    _value(ours, snapshot, kappa)
    for row in ours:
        row.target = row.target or _resting_place(row)
    for partition in snapshot.partitions:
        _rank([row for row in ours if row.target.split(",")[0] == partition.name], config)
    changes = [change for row in rows if (change := _change(row, snapshot.now, config)) is not None]
    changes.sort(key=lambda change: (not change.lift_grace, change.partition is None))
    sent = tuple(changes[: config.max_updates])
    changed = {change.job_id for change in sent}
    return Plan(sent, tuple(_decision(row, snapshot.now, row.pending.job.job_id in changed) for row in rows))


def _ready(snapshot: Snapshot) -> list[PendingJob]:
    """Pending jobs in the order of submission, without those whose estimate is on its way while their grace lasts."""
    ready = [p for p in snapshot.pending if p.final or p.grace_until <= snapshot.now]
    return sorted(ready, key=lambda p: (p.job.submit_time, p.job.job_id))


def _verdicts(pending: PendingJob, snapshot: Snapshot, config: AgentConfig) -> tuple[Verdict, ...]:
    estimates = {estimate.partition: estimate for estimate in pending.estimates}
    managed, billing = snapshot.partitions, config.allow_higher_billing
    return tuple(eligible(pending, p, managed, estimates.get(p.name), snapshot.now, billing) for p in managed)


def _value(rows: list[_Row], snapshot: Snapshot, kappa: float) -> None:
    """Compute all v_ij and run Algorithm 2: sets ``values``, and ``target`` where a job fits now."""
    names = [partition.name for partition in snapshot.partitions]
    shape = (len(rows), len(names))
    gpus, time_s, energy = np.ones(shape), np.full(shape, np.nan), np.full(shape, np.nan)
    for i, row in enumerate(rows):
        candidates = row.candidates
        for estimate in row.pending.estimates:
            if estimate.partition in candidates and estimate.partition in names and estimate.time_s is not None:
                j = names.index(estimate.partition)
                gpus[i, j] = max(row.pending.job.gpus_total or estimate.gpus, 1)
                time_s[i, j] = max(estimate.time_s.p50, 1.0)
                energy[i, j] = np.nan if estimate.energy_kwh is None else estimate.energy_kwh.p50
    v = value.values(gpus, time_s, energy, kappa)
    free = [Capacity.of(tuple(n.gpus_free for n in p.nodes if n.usable)) for p in snapshot.partitions]
    assigned = value.assign(v, [_shape(row.pending) for row in rows], free)
    for i, row in enumerate(rows):
        known = [j for j in range(len(names)) if not np.isnan(v[i, j])]
        row.values = tuple(
            Value(
                names[j],
                int(gpus[i, j]),
                float(time_s[i, j]),
                None if np.isnan(energy[i, j]) else float(energy[i, j]),
                kappa,
                float(v[i, j]),
            )
            for j in known
        )
        if i in assigned:
            row.target, row.fits_now, row.v = names[assigned[i]], True, float(v[i, assigned[i]])


def _shape(pending: PendingJob) -> Shape:
    job = pending.job
    request = job.gpus
    if request is not None and (request.per_job is not None or request.per_task is not None):
        return Shape(job.gpus_total)
    return Shape(job.gpus_total, job.nodes, gpus_per_node(request, job.gpus_total, job.nodes))


def _resting_place(row: _Row) -> str:
    """Where a job waits that doesn't fit anywhere now: where it is, unless another partition is clearly better."""
    current = row.pending.job.partitions
    here = ",".join(current)
    by_value = {value.partition: value.v for value in row.values}
    if not row.movable or not by_value:
        row.v = max(by_value.values(), default=None)
        return here
    best = max(by_value, key=lambda name: by_value[name])
    staying = by_value.get(current[0]) if len(current) == 1 else None
    if staying is not None and by_value[best] - staying <= MOVE_GAIN * abs(staying):
        best = current[0]
    row.v = by_value[best]
    return best


def _rank(rows: list[_Row], config: AgentConfig) -> None:
    """Order the jobs of one partition and give them factors: fitting jobs, then the others, each by falling value."""
    known = sorted(
        (row for row in rows if row.v is not None),
        key=lambda row: (not row.fits_now, -(row.v if row.v is not None else 0)),
    )
    unknown = [row for row in rows if row.v is None]
    middle = max(len(known) // 2, sum(row.fits_now for row in known))
    order = [*known[:middle], *unknown, *known[middle:]]
    ids = [row.pending.job.job_id for row in order]
    factors = spread(ids, {row.pending.job.job_id: _current_factor(row, config) for row in order}, config.band)
    for rank, row in enumerate(order):
        row.rank, row.factor = rank, factors[row.pending.job.job_id]


def _current_factor(row: _Row, config: AgentConfig) -> int:
    job = row.pending.job
    if config.priority_mode == "pin":
        return job.priority - PIN_BASE if row.pending.pinned_by_us else 0
    return job.site_factor


def _change(row: _Row, now: float, config: AgentConfig) -> Change | None:
    """The one update that the job needs, or None."""
    pending, job = row.pending, row.pending.job
    lift = pending.grace_until > now and job.begin_time == pending.grace_until
    if not row.may_change:
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
    """One sentence for the user."""
    if not row.may_change:
        return f"Left alone: {row.verdicts[0].reason}" if row.verdicts else "Left alone."
    if row.v is None:
        return "How long the job will run isn't known, so it keeps its partition and a place in the middle."
    by_value: Mapping[str, float] = {value.partition: value.v for value in row.values}
    others = [name for name in by_value if name != row.target]
    if not row.movable:
        only = next(verdict.reason for verdict in row.verdicts if verdict.may is May.ORDER_ONLY)
        return f"Ordered by its value on {row.target}. {only}"
    where = "fits there now" if row.fits_now else "waits there"
    if not others:
        return f"It can only run on {row.target} and {where}."
    better = all(by_value[row.target] >= by_value[name] for name in others)
    why = "the best value" if better else "not its best value, but the better partition has no room"
    return f"{row.target} has {why} for it, and it {where}."


def _decision(row: _Row, now: float, changed: bool) -> Decision:
    job, pin = row.pending.job, row.pending.pinned_by_us
    return Decision(
        job.job_id,
        job.submit_time,
        now,
        row.target or ",".join(job.partitions),
        _reason(row),
        rank=row.rank,
        site_factor=None if pin else row.factor,
        priority=job.priority if pin else None,
        verdicts=row.verdicts,
        values=row.values,
        changed=changed,
    )
