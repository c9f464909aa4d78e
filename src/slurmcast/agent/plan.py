"""``plan(snapshot, kappas, config, inputs) -> changes and decisions``: what the queue should look like. Pure.

Eligibility comes first, then the policy, the same that the simulator asks, then the translation to what Slurm
understands: a partition for each job, and a site factor (or priority) that puts the jobs into the policy's order. Jobs
that fit now stand above those that don't: Slurm's top job reserves, and must not block one that the policy starts. One
order over all partitions gives each of them its own order too, since a site factor holds wherever the job is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slurmcast.agent.factors import spread
from slurmcast.agent.moment import moment_of, shape_of
from slurmcast.config import AgentConfig
from slurmcast.eligibility import verdicts
from slurmcast.model import Change, Decision, May, PendingJob, Snapshot, Value, Verdict
from slurmcast.policy.base import Floats, Moment, Offers, Queue
from slurmcast.policy.capacity import Capacity, Room
from slurmcast.policy.inputs import NO_INPUTS, Inputs
from slurmcast.policy.kappa import Kappas
from slurmcast.policy.placement import assign, first_choice, in_line
from slurmcast.policy.price import energy_weights, weighted
from slurmcast.policy.registry import named
from slurmcast.policy.value import queue_values
from slurmcast.series import Series

PIN_BASE = 1_000_000
"""With ``priority_mode = "pin"``, priorities start here: above what multifactor weights usually add up to."""

HOUR_S = 3600.0
PRICE_STEP_S = 900
LACKS_POWER = " Started now, it would bring the predicted power above the site's cap."
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
    """Empty where it isn't known how long the job will run."""
    target: str = ""
    v: float = 0.0
    """Its value there, where any is known."""
    fits_now: bool = False
    kept_off: list[Value] = field(default_factory=list)
    """Where the policy doesn't want it now."""
    lacks_power: bool = False
    """Whether it waits because of the cap on power."""
    order: int = 0
    """Place among all pending jobs, 0 first; ``rank`` is the place on its partition."""
    rank: int | None = None
    factor: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, pending: PendingJob, verdicts: tuple[Verdict, ...]) -> _Row:
        moves = tuple([verdict.partition for verdict in verdicts if verdict.may is May.MOVE])
        own = tuple([verdict.partition for verdict in verdicts if verdict.may is May.ORDER_ONLY])
        return cls(pending, verdicts, moves or own, bool(moves))

    @property
    def ours(self) -> bool:
        """Whether anything may be done with the job."""
        return bool(self.candidates)


def plan(snapshot: Snapshot, kappas: Kappas, config: AgentConfig, inputs: Inputs = NO_INPUTS) -> Plan:
    """The changes that bring Slurm's queue into the policy's order, and a decision for every pending job.

    At most ``config.max_updates`` changes: those that lift a grace first, then the jobs that fit now, then the others,
    each in the policy's order. Jobs whose better estimate is still being made are passed over while their grace lasts.
    ``inputs.gpu_power_w`` is by partition. Slurm knows no cap on power: who lacks it stands behind those that may
    start, and keeps its grace, but nothing more holds it.
    """
    partitions, billing = snapshot.partitions, config.allow_higher_billing
    rows = [_Row.of(p, verdicts(p, partitions, snapshot.now, billing)) for p in _ready(snapshot)]
    _decide([row for row in rows if row.ours], snapshot, kappas, config, inputs)
    for row in rows:
        row.reason = _reason(row) + (LACKS_POWER if row.lacks_power else "")
    wanted = [(row, change) for row in rows if (change := _change(row, snapshot.now, config)) is not None]
    wanted.sort(key=lambda pair: (not pair[1].lift_grace, not pair[0].fits_now, pair[0].order))
    changes = tuple(change for _, change in wanted[: config.max_updates])
    changed = {change.job_id for change in changes}
    decisions = (_decision(row, snapshot.now, config, row.pending.job.job_id in changed) for row in rows)
    return Plan(changes, tuple(decisions))


def _ready(snapshot: Snapshot) -> list[PendingJob]:
    """Pending jobs in the order of submission, without those whose estimate is on its way while their grace lasts."""
    ready = [p for p in snapshot.pending if p.final or p.grace_until <= snapshot.now]
    return sorted(ready, key=lambda p: (p.job.submit_time, p.job.job_id))


def _decide(rows: list[_Row], snapshot: Snapshot, kappas: Kappas, config: AgentConfig, inputs: Inputs) -> None:
    """Ask the policy; sets each row's values, target, place in the line and factor."""
    names = [partition.name for partition in snapshot.partitions]
    may = np.array([[name in row.candidates for name in names] for row in rows], bool).reshape(len(rows), len(names))
    moment = moment_of([row.pending for row in rows], may, snapshot)
    kappa = kappas.matrix([row.pending.job.qos for row in rows], names)
    weights = _energy_weights(moment, inputs.price)
    priced = weighted(moment, weights)
    v = queue_values(priced.queue, kappa)
    _explain(rows, moment.queue, weights, kappa, v, names)
    longest_wait_s = config.longest_wait_h * HOUR_S
    offers = named(config.policy, kappa, patience=config.patience, longest_wait_s=longest_wait_s)(priced)
    line = _place(rows, offers, v, snapshot, moment, inputs)
    _rank([rows[i] for i in line], config)


def _energy_weights(moment: Moment, price: Series | None) -> Floats:
    """By the price from the last quarter of an hour on: values that changed in each cycle would all be news."""
    if price is None:
        return np.ones_like(moment.queue.time_s)
    return energy_weights(price, moment.now_s - moment.now_s % PRICE_STEP_S, moment.queue.time_s)


def _explain(
    rows: Sequence[_Row], queue: Queue, weights: Floats, kappa: Floats, v: Floats, names: Sequence[str]
) -> None:
    """Sets ``values``: what the paper's formula makes of each pair, whatever the policy."""
    missing, known = np.isnan(queue.energy_kwh), ~np.isnan(v)
    arrays = (known, queue.gpus.astype(np.int64), queue.time_s, queue.energy_kwh, missing, kappa, v, weights)
    columns = range(len(names))
    for row, k, a, t, e, gap, ks, vs, ws in zip(rows, *(array.tolist() for array in arrays), strict=True):
        row.values = tuple(
            [Value(names[j], a[j], t[j], None if gap[j] else e[j], ks[j], vs[j], ws[j]) for j in columns if k[j]]
        )


def _place(
    rows: Sequence[_Row], offers: Offers, v: Floats, snapshot: Snapshot, moment: Moment, inputs: Inputs
) -> list[int]:
    """Sets ``target``, ``v``, ``fits_now`` and ``lacks_power``; the rows' places, most urgent first."""
    names = [partition.name for partition in snapshot.partitions]
    columns = {name: j for j, name in enumerate(names)}
    room = Room([Capacity(p.nodes) for p in snapshot.partitions], [shape_of(row.pending.job) for row in rows])
    power = inputs.room(moment, room.take)
    assigned = assign(offers, power.take if power else room.take)
    types = first_choice(offers, len(rows)).tolist()
    offered = np.zeros(v.shape, bool)
    offered[offers.jobs, offers.types] = True
    for i, (row, worth, wanted) in enumerate(zip(rows, v.tolist(), offered.tolist(), strict=True)):
        here = row.pending.job.partitions
        row.fits_now, row.target = i in assigned, ",".join(here)
        row.lacks_power = power is not None and i in power.refused and not row.fits_now
        if row.fits_now:
            types[i] = assigned[i]
        elif row.movable and len(here) == 1 and types[i] >= 0:
            staying = columns[here[0]]
            stays = wanted[staying] and _is_hardly_better(worth[types[i]], worth[staying])
            types[i] = staying if stays else types[i]
        if not row.fits_now:
            row.kept_off = [value for value in row.values if not wanted[columns[value.partition]]]
        if row.values and types[i] >= 0:
            row.v = worth[types[i]]
            if row.fits_now or row.movable:
                row.target = names[types[i]]
    fits = np.array([row.fits_now for row in rows], bool)
    line: list[int] = in_line(offers, np.array(types, np.int64), fits).tolist()
    return line


def _is_hardly_better(there: float, here: float) -> bool:
    """False where either isn't known (NaN)."""
    return there - here <= MOVE_GAIN * abs(here)


def _rank(line: Sequence[_Row], config: AgentConfig) -> None:
    """Give the jobs, most urgent first, their places and factors."""
    ids = [row.pending.job.job_id for row in line]
    factors = spread(ids, {row.pending.job.job_id: _current_factor(row, config) for row in line}, config.band)
    places: Counter[str] = Counter()
    for place, row in enumerate(line):
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
    lift = pending.grace_until > now and job.begin_time == pending.grace_until and not row.lacks_power
    if not row.ours:
        return Change(job.job_id, job.submit_time, row.reason, lift_grace=True) if lift else None
    move = row.target != ",".join(job.partitions)
    reorder = row.factor is not None and row.factor != _current_factor(row, config)
    if not (lift or move or reorder):
        return None
    pin = config.priority_mode == "pin"
    return Change(
        job.job_id,
        job.submit_time,
        row.reason,
        partition=row.target if move else None,
        site_factor=row.factor if reorder and not pin else None,
        priority=PIN_BASE + row.factor if reorder and pin and row.factor is not None else None,
        lift_grace=lift,
    )


def _reason(row: _Row) -> str:
    """One sentence for the user, or two."""
    if not row.ours:
        return f"Left alone: {row.verdicts[0].reason}" if row.verdicts else "slurmcast manages no partition."
    if not row.values:
        return "How long the job will run isn't known, so it keeps its partition and a place in the middle."
    if not row.movable:
        only = next(verdict.reason for verdict in row.verdicts if verdict.may is May.ORDER_ONLY)
        return f"Ordered by its value on {row.target}. {only}"
    where = "fits there now" if row.fits_now else "waits there"
    others = [value.v for value in row.values if value.partition != row.target]
    if not others:
        elsewhere = [f"Not on {v.partition}: {v.reason}" for v in row.verdicts if v.partition != row.target]
        return " ".join([f"{row.target} is the only choice, and it {where}.", *elsewhere])
    if row.kept_off:
        off = max(row.kept_off, key=lambda value: value.v)
        if off.v > row.v:
            return f"It waits on {row.target}; on {off.partition}, GPUs are kept for a job that has waited too long."
        return f"It waits for {row.target}, which is better for it than {off.partition} now."
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
        row.reason,
        rank=row.rank,
        site_factor=None if pin else row.factor,
        priority=PIN_BASE + row.factor if pin and row.factor is not None else None,
        verdicts=row.verdicts,
        values=row.values,
        changed=changed,
    )
