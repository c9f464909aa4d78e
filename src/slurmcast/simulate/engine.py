"""The event loop: jobs arrive and end, and at each such moment the policy is asked and the executor starts jobs."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slurmcast.model import J_PER_KWH
from slurmcast.policy.base import Floats, Ints, Moment, Offers, Policy, Queue, Running
from slurmcast.simulate.usage import Usage
from slurmcast.simulate.workload import Cluster, Schedule, Workload


@dataclass(frozen=True)
class Executor:
    """How offers become starts."""

    start: Callable[[Moment, Offers], list[tuple[int, int]]]
    """From what is offered to the pairs (place in the queue, type) that start now."""
    order: Callable[[Moment, Offers], Offers] = lambda _, offers: offers
    """What is kept of the policy's offers until it looks again."""
    period_s: float | None = None
    """The policy looks when jobs arrive and else only every so many seconds, as the agent does; in between it is the
    kept offers that start. None: it looks at every event."""


class SimulationError(Exception):
    """The simulation can't go on, or broke a rule that holds for every schedule; the message says which."""


def run(workload: Workload, cluster: Cluster, policy: Policy, executor: Executor) -> Schedule:
    """Run all jobs. Raises :class:`SimulationError` where jobs wait for ever: they are too large, or never offered.

    Deterministic; events of the same moment are handled together, ends before starts. The policy isn't asked where no
    waiting job would fit, unless it looks by ``executor.period_s``.
    """
    period_s = executor.period_s
    n, total = len(workload), cluster.gpus
    free = total.copy()
    facts = _Facts(workload)
    start_s, types = np.full(n, np.nan), np.full(n, -1, np.int64)
    ends: list[tuple[float, int]] = []
    queue: Ints = np.empty(0, np.int64)
    arrived, submit_s = 0, [*workload.submit_s.tolist(), np.inf]
    kept, due = Offers(queue, queue), np.inf  # the last look's offers by job; when the next look is, beside arrivals
    while arrived < n or ends or due < np.inf:
        now = min(ends[0][0] if ends else np.inf, submit_s[arrived], due)
        look = period_s is None or submit_s[arrived] <= now or due <= now
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            free[types[job]] += workload.gpus[job, types[job]]
            facts.end(job, now)
        if submit_s[arrived] <= now:
            first, arrived = arrived, bisect_right(submit_s, now, arrived)
            queue = np.concatenate([queue, np.arange(first, arrived)])
        if not (facts.any_fits(queue, free) or (look and period_s)):
            continue
        running = np.fromiter((job for _, job in ends), np.int64, len(ends))
        moment = Moment(now, free.copy(), total, facts.queue(queue, now), facts.running(running, types))
        if look:
            offers, due = executor.order(moment, policy(moment)), np.inf
            kept = Offers(queue[offers.jobs], offers.types, offers.in_order)
        else:
            offers, due = _still_waiting(kept, queue), min(due, (now // period_s + 1) * period_s)
        starts = executor.start(moment, offers)
        for place, kind in starts:
            job = int(queue[place])
            start_s[job], types[job] = now, kind
            free[kind] -= workload.gpus[job, kind]
            facts.start(job, kind, now)
            heapq.heappush(ends, (now + workload.time_s[job, kind], job))
        if starts:
            left = np.ones(len(queue), bool)
            left[[place for place, _ in starts]] = False
            queue = queue[left]
    if len(queue):
        raise SimulationError(f"{len(queue)} jobs never started, job {queue[0]} first: are there enough GPUs for it?")
    return Schedule(start_s, types)


def _still_waiting(kept: Offers, queue: Ints) -> Offers:
    """Offers by job as offers by place in the queue, without those to jobs that wait no more."""
    place = np.searchsorted(queue, kept.jobs)
    there = queue[np.minimum(place, len(queue) - 1)] == kept.jobs
    return Offers(place[there], kept.types[there], kept.in_order)


class _Facts:
    """The workload laid out so that a moment costs a few array operations, however many figures a job has."""

    def __init__(self, workload: Workload) -> None:
        w = workload
        self._needed = np.where(w.may, w.gpus, np.inf)
        self._may = w.may
        self._of_job = np.stack([w.submit_s, w.limit_s])
        self._of_pair = np.stack([w.gpus, w.predicted_s, w.high_s, w.predicted_kwh])
        self._of_running = np.empty((5, len(w)))
        self._usage = Usage(w.user) if w.user else None

    def any_fits(self, jobs: Ints, free: Floats) -> bool:
        return bool((self._needed.take(jobs, axis=0) <= free).any())

    def queue(self, jobs: Ints, now: float) -> Queue:
        submit_s, limit_s = self._of_job.take(jobs, axis=1)
        gpus, time_s, high_s, energy_kwh = self._of_pair.take(jobs, axis=1)
        usage = self._usage.of(jobs, now) if self._usage else None
        return Queue(submit_s, gpus, self._may.take(jobs, axis=0), time_s, high_s, energy_kwh, limit_s, usage)

    def start(self, job: int, kind: int, now: float) -> None:
        gpus, time_s, high_s, energy_kwh = self._of_pair[:, job, kind].tolist()
        limit_s = now + self._of_job[1, job]
        self._of_running[:, job] = gpus, now + time_s, now + high_s, limit_s, energy_kwh * J_PER_KWH / time_s
        if self._usage:
            self._usage.occupy(job, gpus, now)

    def end(self, job: int, now: float) -> None:
        if self._usage:
            self._usage.occupy(job, -self._of_running[0, job], now)

    def running(self, jobs: Ints, types: Ints) -> Running:
        gpus, end_s, high_s, limit_s, power_w = self._of_running.take(jobs, axis=1)
        return Running(types.take(jobs), gpus, end_s, high_s, limit_s, power_w)


def verify(workload: Workload, cluster: Cluster, schedule: Schedule) -> None:
    """Raise :class:`SimulationError` where a job didn't run, ran before its submission or where it may not, or a type
    had more GPUs in use than there are."""
    jobs = np.arange(len(workload))
    if not np.isfinite(schedule.start_s).all():
        raise SimulationError(f"job {int(np.isnan(schedule.start_s).argmax())} never ran")
    if (early := schedule.start_s < workload.submit_s).any():
        raise SimulationError(f"job {int(early.argmax())} started before it was submitted")
    if not (allowed := workload.may[jobs, schedule.type]).all():
        raise SimulationError(f"job {int(allowed.argmin())} ran where it may not")
    gpus = workload.gpus[jobs, schedule.type]
    end_s = schedule.start_s + workload.time_s[jobs, schedule.type]
    for kind, name in enumerate(cluster.types):
        own = schedule.type == kind
        moments = np.concatenate([end_s[own], schedule.start_s[own]])
        changes = np.concatenate([-gpus[own], gpus[own]])
        in_use = np.cumsum(changes[np.lexsort((changes > 0, moments))])  # of one moment, ends come first
        if len(in_use) and in_use.max() > cluster.gpus[kind]:
            raise SimulationError(f"{in_use.max():g} GPUs of {name} were in use, there are {cluster.gpus[kind]:g}")
