"""``plan(snapshot, kappas, config, inputs) -> changes and decisions``: what the queue should look like. Pure.

Eligibility comes first, then the policy, the same that the simulator asks, then the translation to what Slurm
understands: a partition for each job, and a site factor (or priority) that puts the jobs into the policy's order. Jobs
that fit now stand above those that don't: Slurm's top job reserves, and must not block one that the policy starts. One
order over all partitions gives each of them its own order too, since a site factor holds wherever the job is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from slurmcast.agent.decisions import PIN_BASE, Case, Decisions
from slurmcast.agent.factors import spread
from slurmcast.agent.known import Known, Memo
from slurmcast.agent.moment import moment_of
from slurmcast.config import AgentConfig
from slurmcast.model import HOUR_S, Change, Snapshot
from slurmcast.policy.base import Floats, Ints, Mask, Moment, Offers
from slurmcast.policy.capacity import Capacity, Room
from slurmcast.policy.inputs import NO_INPUTS, Inputs
from slurmcast.policy.kappa import Kappas
from slurmcast.policy.placement import assign, first_choice, in_line
from slurmcast.policy.price import energy_weights, weighted
from slurmcast.policy.registry import named
from slurmcast.policy.value import queue_values
from slurmcast.series import Series

PRICE_STEP_S = 900
MOVE_GAIN = 0.1
"""A job that must wait anyway changes its partition only for a value better by this share, so that it doesn't flap."""


@dataclass(frozen=True)
class Plan:
    """What to send to Slurm, most urgent first, and what to remember about each pending job."""

    changes: tuple[Change, ...]
    decisions: Decisions


def plan(
    snapshot: Snapshot, kappas: Kappas, config: AgentConfig, inputs: Inputs = NO_INPUTS, memo: Memo | None = None
) -> Plan:
    """The changes that bring Slurm's queue into the policy's order, and a decision for every pending job.

    At most ``config.max_updates`` changes: those that lift a grace first, then the jobs that fit now, then the others,
    each in the policy's order. Jobs whose better estimate is still being made are passed over while their grace lasts.
    ``inputs.gpu_power_w`` is by partition. Slurm knows no cap on power: who lacks it stands behind those that may
    start, and keeps its grace, but nothing more holds it. ``memo``: of the last plan; saves time, changes nothing.
    """
    names = [partition.name for partition in snapshot.partitions]
    known = (memo or Memo()).known(snapshot, config.allow_higher_billing)
    moment = moment_of(known.queue, snapshot)
    kappa = _kappa(known, kappas, names)
    weights = _energy_weights(moment, inputs.price)
    priced = weighted(moment, weights)
    v = queue_values(priced.queue, kappa)
    longest_wait_s = config.longest_wait_h * HOUR_S
    offers = named(config.policy, kappa, patience=config.patience, longest_wait_s=longest_wait_s)(priced)
    placed = _place(offers, v, known, snapshot, moment, inputs)
    case, rival = _explain(placed, v, known)
    targets = [names[j] if j >= 0 else here for j, here in zip(placed.target.tolist(), known.here, strict=True)]
    current = _current_factors(known, config)
    factor = np.zeros_like(current)
    factor[placed.line] = spread(current[placed.line].tolist(), config.band)
    decisions = Decisions(
        snapshot.now,
        config.priority_mode == "pin",
        names,
        known,
        kappa,
        v,
        weights,
        targets,
        placed.fits_now.tolist(),
        placed.lacks_power.tolist(),
        case.tolist(),
        rival.tolist(),
        _ranks(placed.line, targets),
        factor.tolist(),
    )
    reorder = (factor != current) & known.ours
    changes = _changes(decisions, placed, reorder, config.max_updates)
    return Plan(tuple(changes.values()), replace(decisions, changed=frozenset(changes)))


def _kappa(known: Known, kappas: Kappas, names: list[str]) -> Floats:
    """What holds for each job on each partition, (n, m)."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(p.job.qos, len(numbers)) for p in known.pending]
    return kappas.matrix(list(numbers), names)[np.array(codes, np.int64)]


def _energy_weights(moment: Moment, price: Series | None) -> Floats:
    """By the price from the last quarter of an hour on: values that changed in each cycle would all be news."""
    if price is None:
        return np.ones_like(moment.queue.time_s)
    return energy_weights(price, moment.now_s - moment.now_s % PRICE_STEP_S, moment.queue.time_s)


def _current_factors(known: Known, config: AgentConfig) -> Ints:
    """What orders each job now, (n,), on the scale of site factors; 0 where we never set it."""
    if config.priority_mode == "pin":
        found = [p.job.priority - PIN_BASE if p.pinned_by_us else 0 for p in known.pending]
    else:
        found = [p.job.site_factor for p in known.pending]
    return np.array(found, np.int64)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where n jobs go, with m partitions."""

    wanted: Mask
    """Which pairs the policy offers, (n, m)."""
    types: Ints
    """The partition that each job is ordered by, (n,); -1 where none is offered."""
    target: Ints
    """The partition where it is to be, (n,); -1: wherever it is."""
    fits_now: Mask
    """(n,)."""
    lacks_power: Mask
    """Who waits because of the cap on power, (n,)."""
    line: Ints
    """The jobs with which anything may be done, most urgent first."""


def _place(offers: Offers, v: Floats, known: Known, snapshot: Snapshot, moment: Moment, inputs: Inputs) -> _Placed:
    """From the policy's offers and the values (n, m), NaN where there is none."""
    count = len(v)
    room = Room([Capacity(p.nodes) for p in snapshot.partitions], known.shapes)
    power = inputs.room(moment, room.take)
    assigned = assign(offers, power.take if power else room.take)
    fits, refused, wanted = np.zeros(count, bool), np.zeros(count, bool), np.zeros(v.shape, bool)
    fits[list(assigned)] = True
    refused[list(power.refused) if power else []] = True
    wanted[offers.jobs, offers.types] = True

    types = first_choice(offers, count)
    there, here = _at(v, types), _at(np.where(wanted, v, np.nan), known.home)
    stays = known.movable & (there - here <= MOVE_GAIN * np.abs(here))
    types[stays] = known.home[stays]
    types[list(assigned)] = list(assigned.values())
    valued = ~np.isnan(v).all(axis=1)
    line = in_line(offers, types, fits)
    return _Placed(
        wanted,
        types,
        np.where(valued & (fits | known.movable), types, -1),
        fits,
        refused & ~fits,
        line[known.ours[line]],
    )


def _at(v: Floats, columns: Ints) -> Floats:
    """The value of each row in its column, (n,); NaN for column -1."""
    result: Floats = np.column_stack([v, np.full(len(v), np.nan)])[np.arange(len(v)), columns]
    return result


def _explain(placed: _Placed, v: Floats, known: Known) -> tuple[Ints, Ints]:
    """Why each job is where it is: its :class:`Case` and rival (see :class:`Decisions`), (n,) each."""
    valued = ~np.isnan(v)
    at = np.where(placed.target >= 0, placed.target, known.home)
    elsewhere = valued & (np.arange(v.shape[1]) != at[:, None])
    kept_off = valued & ~placed.wanted & ~placed.fits_now[:, None]
    own = np.where(placed.types >= 0, _at(v, placed.types), 0.0)
    best_off, rival = _best(v, kept_off)
    cases = (
        (~known.ours, Case.LEFT_ALONE),
        (~valued.any(axis=1), Case.UNKNOWN),
        (~known.movable, Case.STAYS),
        (~elsewhere.any(axis=1), Case.ONLY_CHOICE),
        (best_off > own, Case.KEPT_OFF),
        (kept_off.any(axis=1), Case.WAITS_FOR_BETTER),
        (own >= _best(v, elsewhere)[0], Case.BEST),
        (placed.fits_now, Case.NO_ROOM),
    )
    case = np.select([holds for holds, _ in cases], [int(name) for _, name in cases], int(Case.HARDLY_BETTER))
    return case, np.where(np.isin(case, (Case.KEPT_OFF, Case.WAITS_FOR_BETTER)), rival, -1)


def _best(v: Floats, among: Mask) -> tuple[Floats, Ints]:
    """The best value of each row and its column, (n,) each; -inf and some column where there is none."""
    padded = np.column_stack([np.where(among, v, -np.inf), np.full(len(v), -np.inf)])
    columns = padded.argmax(axis=1)
    return padded[np.arange(len(v)), columns], columns


def _ranks(line: Ints, targets: list[str]) -> list[int | None]:
    """Each job's place on its partition by the ``line``; None for those that aren't in it."""
    ranks: list[int | None] = [None] * len(targets)
    places: Counter[str] = Counter()
    for job in line.tolist():
        ranks[job] = places[targets[job]]
        places[targets[job]] += 1
    return ranks


def _changes(decisions: Decisions, placed: _Placed, reorder: Mask, limit: int) -> dict[int, Change]:
    """The most urgent updates that jobs need, at most ``limit``, by the jobs' places."""
    known, count = decisions.known, len(decisions)
    lift = (known.grace_until > decisions.at) & ~placed.lacks_power
    move = (placed.target >= 0) & (placed.target != known.home)
    order = np.zeros(count, np.int64)
    order[placed.line] = np.arange(len(placed.line))
    needed = np.lexsort((order, ~placed.fits_now, ~lift))
    needed = needed[(lift | move | reorder)[needed]][:limit]
    changes = {}
    for place in needed.tolist():
        job, (site_factor, priority) = known.pending[place].job, decisions.setting(place)
        changes[place] = Change(
            job.job_id,
            job.submit_time,
            decisions.reason(place),
            partition=decisions.targets[place] if move[place] else None,
            site_factor=site_factor if reorder[place] else None,
            priority=priority if reorder[place] else None,
            lift_grace=bool(lift[place]),
        )
    return changes
