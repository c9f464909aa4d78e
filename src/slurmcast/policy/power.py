"""A cap on the sum of predicted power: a wrapper around any policy. Ours.

Power is the mean power of all of a job's GPUs by the predicted medians, e_ij / t_ij. No start is offered that would
bring the sum over running and started jobs above the cap, so the cap holds under every executor. It doesn't stop what
runs: lowered below what is drawn, the cap only keeps further jobs from starting. Jobs of little power may pass those of
much, and a job that needs more than the whole cap never starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slurmcast.model import J_PER_KWH
from slurmcast.policy.base import Floats, Mask, Moment, Offers, Policy, Queue, Running


@dataclass(frozen=True)
class PowerCapped:
    """The policy, without the offers that would break the cap."""

    policy: Policy
    cap_w: float
    gpu_power_w: Floats
    """Mean power of one busy GPU of each type, (m,), for jobs whose energy or time isn't known."""

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`. A pair that has no room in this moment, whoever goes first, keeps
        its place: it draws nothing now, and an executor may keep GPUs for it."""
        offers = self.policy(moment)
        room_w = self.cap_w - float(running_power_w(moment.running, self.gpu_power_w).sum())
        kept = _within(offers, moment, job_power_w(moment.queue, self.gpu_power_w), room_w)
        return Offers(offers.jobs[kept], offers.types[kept], offers.in_order)


class PowerRoom:
    """What is left below a cap, beside other room, for :func:`slurmcast.policy.placement.assign`."""

    def __init__(self, moment: Moment, cap_w: float, gpu_power_w: Floats, take: Callable[[int, int], bool]) -> None:
        """``take(i, j)`` uses up other room where there is enough and says whether there was."""
        self._take = take
        self._power_w: list[list[float]] = job_power_w(moment.queue, gpu_power_w).tolist()
        self._room_w = cap_w - float(running_power_w(moment.running, gpu_power_w).sum())
        self.refused: set[int] = set()
        """Jobs for which there wasn't enough power somewhere."""

    def take(self, job: int, kind: int) -> bool:
        """Use up room for the pair where there is enough; whether there was."""
        power_w = self._power_w[job][kind]
        if power_w > self._room_w:
            self.refused.add(job)
            return False
        if not self._take(job, kind):
            return False
        self._room_w -= power_w
        return True


def job_power_w(queue: Queue, gpu_power_w: Floats) -> Floats:
    """Mean power of each pair (n, m)."""
    power = queue.energy_kwh * J_PER_KWH / queue.time_s
    result: Floats = np.where(np.isnan(power), queue.gpus * gpu_power_w, power)
    return result


def running_power_w(running: Running, gpu_power_w: Floats) -> Floats:
    """Mean power of each running job, (r,)."""
    result: Floats = np.where(np.isnan(running.power_w), running.gpus * gpu_power_w[running.type], running.power_w)
    return result


def _within(offers: Offers, moment: Moment, power_w: Floats, room_w: float) -> Mask:
    """Which offers stay, (p,): the pairs taken one after the other as long as GPUs and power last, each job once, and
    those that don't fit into the free GPUs even alone."""
    gpus = moment.queue.gpus[offers.jobs, offers.types]
    fits = gpus <= moment.free[offers.types]
    kept, free, taken = ~fits, moment.free.tolist(), set[int]()
    blocked: int | None = None
    walk = np.arange(len(fits)) if offers.in_order else np.flatnonzero(fits)
    jobs, types = offers.jobs[walk], offers.types[walk]
    rows = zip(walk.tolist(), jobs.tolist(), types.tolist(), gpus[walk].tolist(), power_w[jobs, types], strict=True)
    for place, job, kind, wanted, watts in rows:
        if job in taken:
            continue
        if offers.in_order and blocked not in (None, job):
            kept[place:] = False  # those behind a job that can't start
            break
        if wanted <= free[kind] and watts <= room_w:
            free[kind] -= wanted
            room_w -= watts
            taken.add(job)
            kept[place] = True
            blocked = None
        else:
            blocked = job
    return kept
