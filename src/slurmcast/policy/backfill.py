"""Backfilling: jobs in their order, a reservation for those that can't start, and behind them whatever delays none.

With one reservation that is EASY (Lifka 1995), with one for every job conservative backfilling (Mu'alem and Feitelson
2001), which is what Slurm's sched/backfill does by the jobs' time limits. Node borders aren't known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slurmcast.policy.base import Floats, Ints, Mask, Moment

Belief = Literal["limit", "median", "high"]
"""By what a job's end is told: the user's time limit, the predicted median or the predicted 0.9 quantile."""

OUTLIVED_S = 60.0
"""A job that has outlived all that was known of its end is taken to go on for this long."""

UNLIMITED_S = 365 * 86400.0
"""A job without a time limit occupies its GPUs for a year (as in Slurm), but never fits before a reservation."""


@dataclass(slots=True)
class Profile:
    """Free GPUs of one type from now on, as steps: ``free[k]`` from ``times[k]`` (rising, the first is now) on."""

    times: Floats
    free: Floats

    @classmethod
    def of(cls, now_s: float, free: float, end_s: Floats, gpus: Floats) -> Profile:
        """``end_s`` (r,) after now: when those ``gpus`` (r,) come free."""
        ends, place = np.unique(end_s, return_inverse=True)
        freed = np.bincount(place, gpus, len(ends))
        times = np.concatenate([[now_s], ends])
        return cls(times, free + np.concatenate([[0.0], np.cumsum(freed)]))

    def holds(self, gpus: Floats, duration_s: Floats) -> Mask:
        """Whether a job of that many GPUs and that duration, each (n,), may start now."""
        last = np.searchsorted(self.times, self.times[0] + duration_s) - 1
        result: Mask = np.minimum.accumulate(self.free)[np.maximum(last, 0)] >= gpus
        return result

    def earliest(self, gpus: float, duration_s: float) -> float:
        """When a job may start, at the earliest; infinite where that can't be told."""
        room = np.pad(self.free >= gpus, 1)
        turns = np.flatnonzero(room[1:] != room[:-1])  # where stretches with room begin, and end
        edges = np.append(self.times, np.inf)
        begin, end = edges[turns[::2]], edges[turns[1::2]]
        enough = begin + duration_s <= end
        return float(begin[enough.argmax()]) if enough.any() else np.inf

    def take(self, start_s: float, gpus: float, duration_s: float) -> None:
        """Reserve: ``gpus`` less from ``start_s`` on for ``duration_s``."""
        first, last = self._cut(start_s), self._cut(start_s + min(duration_s, UNLIMITED_S))
        self.free[first:last] -= gpus

    def _cut(self, time_s: float) -> int:
        """The step that begins at ``time_s``, made where there is none."""
        place = int(np.searchsorted(self.times, time_s))
        if place == len(self.times) or self.times[place] != time_s:
            self.times = np.insert(self.times, place, time_s)
            self.free = np.insert(self.free, place, self.free[place - 1])
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
    chances = np.flatnonzero(np.asarray((may & (queue.gpus <= moment.free)).any(axis=1))[order])
    if not len(chances):
        return []
    order = order[: chances[-1] + 1]  # who comes later can't start, so needs no place
    gpus, allowed, duration_s = queue.gpus[order], may[order], durations(moment, belief)[order]
    end_s, kind = ends(moment, belief), moment.running.type
    profiles = [
        Profile.of(now_s, free, end_s[kind == j], moment.running.gpus[kind == j])
        for j, free in enumerate(moment.free.tolist())
    ]
    started: list[tuple[int, int]] = []
    at, reserved = 0, 0
    while at < len(order):
        could = _could(profiles, gpus[at:], allowed[at:], duration_s[at:])
        able = could.any(axis=1)
        if not able.any():
            break
        ahead = int(able.argmax())
        if ahead and reserved < reservations:
            count = int(min(ahead, reservations - reserved))
            for place in range(at, at + count):
                _reserve(profiles, gpus[place], allowed[place], duration_s[place])
            reserved, at = reserved + count, at + ahead
            continue
        at += ahead
        chosen = int(could[ahead].argmax())
        profiles[chosen].take(now_s, gpus[at, chosen], duration_s[at, chosen])
        started.append((int(order[at]), chosen))
        at += 1
    return started


def _could(profiles: Sequence[Profile], gpus: Floats, may: Mask, duration_s: Floats) -> Mask:
    """Whether each job may start now on each type, (n, m)."""
    columns = [profile.holds(gpus[:, j], duration_s[:, j]) for j, profile in enumerate(profiles)]
    return np.stack(columns, axis=1) & may


def _reserve(profiles: Sequence[Profile], gpus: Floats, may: Mask, duration_s: Floats) -> None:
    start_s = [profile.earliest(gpus[j], duration_s[j]) if may[j] else np.inf for j, profile in enumerate(profiles)]
    best = int(np.argmin(start_s))
    if np.isfinite(start_s[best]):
        profiles[best].take(start_s[best], gpus[best], duration_s[best])
