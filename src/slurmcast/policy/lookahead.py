"""The look-ahead rule (ours): the value rule, where a job may wait for GPUs that are expected to come free.

A pair (i, j) that doesn't fit now has the value that it would have if the job started after the expected wait w_ij,

    v_ij(w) = 1 / (a_ij (t_ij + w / patience)) - kappa e_ij,

so that a job waits for its better type rather than start on the poor one where that has the higher value: with kappa 0
and as many GPUs on both types, where w < patience (t_poor - t_better). Pairs are taken by falling value as in
Algorithm 2. A job that waits makes the waits of later ones longer, but no free GPU is kept for it: predictions err, and
in trials keeping some gained nothing (docs/policies.md).

The value rule passes over wide and long jobs for as long as others come. Here the oldest of the jobs that have waited
for ``longest_wait_s`` starts where it can, or reserves GPUs by time limits, as EASY's first job does. So where no job
outlives its limit, none waits for longer than ``longest_wait_s`` + (k + 1) L: L is the longest time limit, k the number
of older jobs that wait for longer than ``longest_wait_s`` too.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil, inf, isnan

import numpy as np

from slurmcast.model import DAY_S, HOUR_S
from slurmcast.policy.backfill import Profile, ends
from slurmcast.policy.base import Floats, Mask, Moment, Offers, Running
from slurmcast.policy.value import by_value, queue_values, with_unknown

SOONEST_S = 1.0
"""Nothing that runs is expected to end sooner."""
PATIENCE = 0.5
LONGEST_WAIT_S = 7 * DAY_S


def warning(submit_s: Collection[float], now_s: float, longest_wait_s: float) -> str | None:
    """What to say where most of the jobs that wait have done so for too long: then the oldest goes first whatever its
    value, and the rule is EASY's."""
    late = sum(now_s - at >= longest_wait_s for at in submit_s)
    if 2 * late <= len(submit_s):
        return None
    return (
        f"{late} of {len(submit_s)} pending jobs have waited for longer than agent.longest_wait_h = "
        f"{longest_wait_s / HOUR_S:g} h, so the oldest go first whatever their value"
    )


@dataclass(frozen=True)
class LookAhead:
    """The rule as a policy. Jobs that wait are offered the type that they wait for, then the others that are full."""

    kappa: float | Floats = 0.0
    """In 1/(GPU s kWh)."""
    patience: float = PATIENCE
    """Seconds that a job may wait for each second of running time that the better type saves. With 0 it is the value
    rule, with infinity every job waits for its best type."""
    longest_wait_s: float = LONGEST_WAIT_S
    """A job that has waited for this long may no longer be passed over."""

    def __post_init__(self) -> None:
        """Raises ValueError where a parameter makes no sense."""
        if not (self.patience >= 0 and self.longest_wait_s >= 0):
            raise ValueError(f"patience {self.patience} and longest_wait_s {self.longest_wait_s} must be 0 or more")

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        queue = moment.queue
        v = with_unknown(queue, queue_values(queue, self.kappa))
        pools = _pools(moment)
        first = _overdue(moment, pools, self.longest_wait_s)
        planned, waiting = _plan(moment, pools, v, self.patience, {job for job, _ in first})
        early = Offers.of(first + planned)
        v[early.jobs, early.types] = np.nan
        fits = queue.gpus <= np.array([pool.free for pool in pools])
        reserved = np.array([pool.profile is not None for pool in pools], bool)
        v[fits & (waiting[:, None] | reserved)] = np.nan
        # Left are types that are full, and where else those may start that borders of nodes keep off their type.
        rest = by_value(v)
        return Offers(np.concatenate([early.jobs, rest.jobs]), np.concatenate([early.types, rest.types]))


def remaining(now_s: float, running: Running) -> Floats:
    """How long each running job is expected to go on, (r,) in s; infinite where nothing is known of its end.

    The end has a logistic distribution with the predicted median and 0.9 quantile, given that it lies ahead:
    E[end - now | end > now] = s log(1 + exp(z)) (1 + exp(-z)), where s = (0.9 quantile - median) / log 9 and
    z = (median - now) / s. Its tail is exponential: a job that has outlived its prediction isn't expected to end at
    once, but after another s. Never beyond the time limit.
    """
    scale = np.maximum((running.high_s - running.end_s) / np.log(9), SOONEST_S)
    z = np.maximum((running.end_s - now_s) / scale, -30.0)
    with np.errstate(invalid="ignore"):  # NaN: nothing is known
        expected = scale * np.logaddexp(0, z) * (1 + np.exp(-z))
    limit_s = np.where(running.limit_s > now_s, running.limit_s - now_s, inf)
    result: Floats = np.maximum(np.fmin(expected, limit_s), SOONEST_S)
    return result


@dataclass(slots=True)
class _Pool:
    """The GPUs of one type while a plan is made."""

    free: float
    waits: list[float]
    """In how many s each of the type's GPUs is expected to come free, rising; 0 for those that are."""
    profile: Profile | None = None
    """What is free besides a reservation, by time limits; None where there is none."""

    def wait(self, gpus: float, limit_s: float) -> float:
        """The expected wait of a job: 0 where it fits now and delays no reservation."""
        if gpus <= self.free and self._holds(gpus, limit_s):
            return 0.0
        return max(self.waits[ceil(gpus) - 1], SOONEST_S) if gpus <= len(self.waits) else inf

    def take(self, gpus: float, wait_s: float, time_s: float, limit_s: float) -> None:
        """Plan a job there, ``wait_s`` from now."""
        count = ceil(gpus)
        del self.waits[:count]
        for _ in range(count):
            insort(self.waits, inf if isnan(time_s) else wait_s + time_s)
        if not wait_s:
            self.free -= gpus
            if self.profile is not None:
                self.profile.take(self.profile.times[0], gpus, limit_s)

    def _holds(self, gpus: float, limit_s: float) -> bool:
        return self.profile is None or bool(self.profile.holds(np.array([gpus]), np.array([limit_s]))[0])


def _pools(moment: Moment) -> list[_Pool]:
    running = moment.running
    left_s, counts = remaining(moment.now_s, running), np.ceil(running.gpus).astype(np.int64)
    pools = []
    for kind, free in enumerate(moment.free.tolist()):
        own = running.type == kind
        busy = np.sort(np.repeat(left_s[own], counts[own]))
        pools.append(_Pool(free, [0.0] * int(free) + busy.tolist()))
    return pools


def _overdue(moment: Moment, pools: list[_Pool], longest_wait_s: float) -> list[tuple[int, int]]:
    """The oldest job that has waited too long, with the type where it starts or, by time limits, can start first. Its
    reservation never moves to a later start: whoever starts there later ends before it or leaves GPUs enough."""
    queue, running, now_s = moment.queue, moment.running, moment.now_s
    possible = queue.may & (queue.gpus <= moment.total)
    late = (now_s - queue.submit_s >= longest_wait_s) & possible.any(axis=1)
    if not late.any():
        return []
    job, end_s = int(late.argmax()), ends(moment, "limit")
    gpus, limit_s = queue.gpus[job], float(queue.limit_s[job])
    choices = []
    for kind in np.flatnonzero(possible[job]).tolist():
        own = running.type == kind
        profile = Profile.of(now_s, pools[kind].free, end_s[own], running.gpus[own])
        choices.append((profile.earliest(gpus[kind], inf), kind, profile))
    start_s, kind, profile = min(choices, key=lambda choice: choice[:2])
    wait_s = start_s - now_s
    pools[kind].take(gpus[kind], wait_s, float(queue.time_s[job, kind]), limit_s)
    if wait_s:
        profile.take(start_s, gpus[kind], inf)
        pools[kind].profile = profile
    return [(job, kind)]


def _plan(
    moment: Moment, pools: list[_Pool], v: Floats, patience: float, without: set[int]
) -> tuple[list[tuple[int, int]], Mask]:
    """The pairs by falling v_ij(w), each job once, until no GPU is free; and which jobs were looked at and wait, (n,).

    Waits only grow while jobs are planned, and values fall, so that a pair is looked at again only when it comes to the
    top. ``without``: jobs that have a place.
    """
    queue = moment.queue
    gpus, time_s, limit_s, values = queue.gpus.tolist(), queue.time_s.tolist(), queue.limit_s.tolist(), v.tolist()
    jobs, types = np.nonzero(~np.isnan(v))
    top = list(zip((-v[jobs, types]).tolist(), jobs.tolist(), types.tolist(), strict=True))
    heapq.heapify(top)
    planned: list[tuple[int, int]] = []
    waiting, done = np.zeros(len(queue), bool), set(without)
    free = sum(pool.free for pool in pools)
    while top and free:
        before, job, kind = heapq.heappop(top)
        if job in done:
            continue
        a, t = gpus[job][kind], time_s[job][kind]
        wait_s = pools[kind].wait(a, limit_s[job])
        value = values[job][kind] - _loss(a, t, wait_s, patience)
        if value == -inf:
            continue
        if -value > before and top and -value > top[0][0]:
            heapq.heappush(top, (-value, job, kind))
            continue
        done.add(job)
        waiting[job] = wait_s > 0
        if not wait_s or a > pools[kind].free:  # else it would delay the reservation
            planned.append((job, kind))
        pools[kind].take(a, wait_s, t, limit_s[job])
        free -= 0.0 if wait_s else a
    return planned, waiting


def _loss(gpus: float, time_s: float, wait_s: float, patience: float) -> float:
    """By how much a wait lowers a pair's value; infinite where it can't be told, or nobody is to wait."""
    if not wait_s:
        return 0.0
    if wait_s == inf or isnan(time_s) or not patience:
        return inf
    return 1 / (gpus * time_s) - 1 / (gpus * (time_s + wait_s / patience))
