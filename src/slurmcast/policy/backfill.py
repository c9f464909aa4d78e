"""Backfilling: jobs in their order, a reservation for those that can't start, and behind them whatever delays none.

With one reservation that is EASY (Lifka 1995), with one for every job conservative backfilling (Mu'alem and Feitelson
2001), which is what Slurm's sched/backfill does by the jobs' time limits. Node borders aren't known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slurmcast.model import DAY_S
from slurmcast.policy.base import Floats, Ints, Mask, Moment

Belief = Literal["limit", "median", "high"]
"""By what a job's end is told: the user's time limit, the predicted median or the predicted 0.9 quantile."""

OUTLIVED_S = 60.0
"""A job that has outlived all that was known of its end is taken to go on for this long."""

UNLIMITED_S = 365 * DAY_S
"""A job without a time limit occupies its GPUs for a year (as in Slurm), but never fits before a reservation."""


@dataclass(slots=True)
class Profile:
    """Free GPUs of one type from now on, as steps: ``free[k]`` from ``times[k]`` (rising, the first is now) on."""

    times: list[float]
    free: list[float]

    @classmethod
    def of(cls, now_s: float, free: float, end_s: Floats, gpus: Floats) -> Profile:
        """``end_s`` (r,) after now: when those ``gpus`` (r,) come free."""
        order = np.argsort(end_s)
        times = end_s[order]
        last = np.flatnonzero(np.append(times[1:] != times[:-1], len(times) > 0))  # of each time
        freed = np.cumsum(gpus[order])[last]
        return cls([now_s, *times[last].tolist()], [free, *(free + freed).tolist()])

    def holds(self, gpus: Floats, duration_s: Floats) -> Mask:
        """Whether a job of that many GPUs and that duration, each (n,), may start now."""
        last = np.searchsorted(np.array(self.times), self.times[0] + duration_s) - 1
        result: Mask = np.minimum.accumulate(self.free)[np.maximum(last, 0)] >= gpus
        return result

    def earliest(self, gpus: float, duration_s: float) -> float:
        """When a job may start, at the earliest; infinite where that can't be told."""
        begin = np.inf
        for time_s, free in zip(self.times, self.free, strict=True):
            if begin + duration_s <= time_s:
                break
            if free < gpus:
                begin = np.inf
            elif begin == np.inf:
                begin = time_s
        return begin

    def take(self, start_s: float, gpus: float, duration_s: float) -> None:
        """Reserve: ``gpus`` less from ``start_s`` on for ``duration_s``."""
        first, last = self._cut(start_s), self._cut(start_s + min(duration_s, UNLIMITED_S))
        for step in range(first, last):
            self.free[step] -= gpus

    def _cut(self, time_s: float) -> int:
        """The step that begins at ``time_s``, made where there is none."""
        place = bisect_left(self.times, time_s)
        if place == len(self.times) or self.times[place] != time_s:
            self.times.insert(place, time_s)
            self.free.insert(place, self.free[place - 1])
        return place


def durations(moment: Moment, belief: Belief) -> Floats:
    """How long each waiting job would run on each type, (n, m): never longer than its time limit."""
    queue = moment.queue
    limit_s = np.broadcast_to(queue.limit_s[:, None], queue.gpus.shape)
    if belief == "limit":
        return limit_s
    result: Floats = np.fmin(queue.time_s if belief == "median" else queue.high_s, limit_s)
    return result


def ends(moment: Moment, belief: Belief) -> Floats:
    """When each running job ends, (r,). One that has outlived the belief ends by the next one that it hasn't."""
    running, now_s = moment.running, moment.now_s
    ladder = {"median": (running.end_s, running.high_s), "high": (running.high_s,), "limit": ()}[belief]
    result = np.where(running.limit_s > now_s, np.fmin(running.limit_s, now_s + UNLIMITED_S), now_s + OUTLIVED_S)
    for step in reversed(ladder):
        result = np.where(step > now_s, np.fmin(step, result), result)
    return result


def starts(
    moment: Moment, order: Ints, may: Mask, belief: Belief, reservations: float = np.inf
) -> list[tuple[int, int]]:
    """The pairs (job, type) that start now.

    ``order``: the jobs, most urgent first; ``may`` (n, m). Each starts on the first type on which it delays nobody who
    has reserved. Where there is none, and less than ``reservations`` were made, it reserves on the type where it
    can start earliest, of equal ones the first.
    """
    queue, now_s = moment.queue, moment.now_s
    rows = np.asarray((may & (queue.gpus <= moment.free)).any(axis=1))
    chances = np.flatnonzero(rows[order])  # places in the order of those that might start: GPUs only get fewer
    if not len(chances):
        return []
    end_s, kind = ends(moment, belief), moment.running.type
    profiles = [
        Profile.of(now_s, free, end_s[kind == j], moment.running.gpus[kind == j])
        for j, free in enumerate(moment.free.tolist())
    ]
    duration_s = durations(moment, belief)
    started: list[tuple[int, int]] = []
    at, reserved = 0, 0
    while len(chances):
        jobs = order[chances]
        could = _could(profiles, queue.gpus[jobs], may[jobs], duration_s[jobs])
        able = could.any(axis=1)
        if not able.any():
            break
        first = int(able.argmax())
        place, chances = int(chances[first]), chances[first:]
        if place > at and reserved < reservations:
            count = int(min(place - at, reservations - reserved))
            for job in order[at : at + count].tolist():
                _reserve(profiles, queue.gpus[job].tolist(), may[job], duration_s[job].tolist())
            reserved, at = reserved + count, place
            continue
        job, chosen = int(order[place]), int(could[first].argmax())
        profiles[chosen].take(now_s, queue.gpus[job, chosen], duration_s[job, chosen])
        started.append((job, chosen))
        at, chances = place + 1, chances[1:]
    return started


def _could(profiles: Sequence[Profile], gpus: Floats, may: Mask, duration_s: Floats) -> Mask:
    """Whether each job may start now on each type, (n, m)."""
    columns = [profile.holds(gpus[:, j], duration_s[:, j]) for j, profile in enumerate(profiles)]
    return np.stack(columns, axis=1) & may


def _reserve(profiles: Sequence[Profile], gpus: Sequence[float], may: Mask, duration_s: Sequence[float]) -> None:
    choices = [(profile.earliest(gpus[j], duration_s[j]), j) for j, profile in enumerate(profiles) if may[j]]
    start_s, best = min(choices, default=(np.inf, 0))
    if start_s < np.inf:
        profiles[best].take(start_s, gpus[best], duration_s[best])
