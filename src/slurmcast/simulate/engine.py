"""The event loop: jobs arrive and end, and at each such moment the policy is asked and the executor starts jobs."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from slurmcast.policy.base import J_PER_KWH, Ints, Moment, Offers, Policy, Queue, Running
from slurmcast.simulate.workload import Cluster, Schedule, Workload

Executor = Callable[[Moment, Offers], list[tuple[int, int]]]
"""From what is offered to the pairs (place in the queue, type) that start now."""


class SimulationError(Exception):
    """The simulation can't go on, or broke a rule that holds for every schedule; the message says which."""


def run(workload: Workload, cluster: Cluster, policy: Policy, executor: Executor) -> Schedule:
    """Run all jobs. Raises :class:`SimulationError` where jobs wait for ever: they are too large, or never offered.

    Deterministic; events of the same moment are handled together, ends before starts.
    """
    n, total = len(workload), cluster.gpus
    free = total.copy()
    start_s, types = np.full(n, np.nan), np.full(n, -1, np.int64)
    ends: list[tuple[float, int]] = []
    queue: Ints = np.empty(0, np.int64)
    arrived, submit_s = 0, workload.submit_s
    while arrived < n or ends:
        now = min(ends[0][0] if ends else np.inf, submit_s[arrived] if arrived < n else np.inf)
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            free[types[job]] += workload.gpus[job, types[job]]
        if arrived < n and submit_s[arrived] <= now:
            upto = int(np.searchsorted(submit_s, now, side="right"))
            queue = np.concatenate([queue, np.arange(arrived, upto)])
            arrived = upto
        if not len(queue) or not free.any():
            continue
        running = np.fromiter((job for _, job in ends), np.int64, len(ends))
        moment = Moment(now, free.copy(), total, _queue(workload, queue), _running(workload, running, start_s, types))
        starts = executor(moment, policy(moment))
        for place, kind in starts:
            job = int(queue[place])
            start_s[job], types[job] = now, kind
            free[kind] -= workload.gpus[job, kind]
            heapq.heappush(ends, (now + workload.time_s[job, kind], job))
        if starts:
            queue = np.delete(queue, [place for place, _ in starts])
    if len(queue):
        raise SimulationError(f"{len(queue)} jobs never started, job {queue[0]} first: are there enough GPUs for it?")
    return Schedule(start_s, types)


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


def _queue(workload: Workload, jobs: Ints) -> Queue:
    return Queue(
        submit_s=workload.submit_s[jobs],
        gpus=workload.gpus[jobs],
        may=workload.may[jobs],
        time_s=workload.predicted_s[jobs],
        high_s=workload.high_s[jobs],
        energy_kwh=workload.predicted_kwh[jobs],
        limit_s=workload.limit_s[jobs],
    )


def _running(workload: Workload, jobs: Ints, start_s: np.ndarray, types: Ints) -> Running:
    begun, kind = start_s[jobs], types[jobs]
    return Running(
        type=kind,
        gpus=workload.gpus[jobs, kind],
        end_s=begun + workload.predicted_s[jobs, kind],
        high_s=begun + workload.high_s[jobs, kind],
        limit_s=begun + workload.limit_s[jobs],
        power_w=workload.predicted_kwh[jobs, kind] * J_PER_KWH / workload.predicted_s[jobs, kind],
    )
