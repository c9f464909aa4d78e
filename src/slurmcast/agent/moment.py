"""From a snapshot to what a policy sees of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.eligibility import gpus_per_node
from slurmcast.model import J_PER_KWH, Interval, Job, Partition, PendingJob, RunningJob, Snapshot
from slurmcast.policy.base import Ints, Mask, Moment, Queue, Running
from slurmcast.policy.capacity import Shape

NAN = float("nan")
UNKNOWN = Interval(NAN, NAN, NAN)
LEAST_S = 1.0
"""No job counts as shorter: values would know no bounds."""


def moment_of(queue: Queue, snapshot: Snapshot) -> Moment:
    """The moment in which a policy decides about the ``queue``."""
    partitions = snapshot.partitions
    return Moment(
        snapshot.now,
        np.array([float(partition.gpus_free) for partition in partitions]),
        np.array([float(sum(node.gpus for node in p.nodes if node.usable)) for p in partitions]),
        queue,
        _running(snapshot.running, partitions),
    )


def queue_of(pending: Sequence[PendingJob], may: Mask, partitions: Sequence[Partition]) -> Queue:
    """What is known of n jobs, in the order given; ``may`` (n, m): where each may run."""
    columns = {partition.name: j for j, partition in enumerate(partitions)}
    places: list[int] = []
    known: list[float] = []  # four figures for each; flat, since numpy takes long over nested lists
    for i, job in enumerate(pending):
        for estimate in job.estimates:
            j = columns.get(estimate.partition)
            if j is not None:
                time_s, energy_kwh = estimate.time_s or UNKNOWN, (estimate.time_s and estimate.energy_kwh) or UNKNOWN
                places.append(i * len(columns) + j)
                known += (estimate.gpus, time_s.p50, time_s.p90, energy_kwh.p50)
    figures = np.full((may.size, 4), (1.0, NAN, NAN, NAN))
    figures[places] = np.array(known).reshape(-1, 4)
    gpus, time_s, high_s, energy_kwh = np.ascontiguousarray(figures.T).reshape(4, *may.shape)
    limits = [np.inf if p.job.time_limit_s is None else p.job.time_limit_s for p in pending]
    return Queue(
        submit_s=np.array([p.job.submit_time for p in pending], np.float64),
        gpus=_occupied([p.job for p in pending], gpus, partitions),
        may=may,
        time_s=np.maximum(time_s, LEAST_S),
        high_s=np.maximum(high_s, LEAST_S),
        energy_kwh=energy_kwh,
        limit_s=np.array(limits, np.float64),
    )


def pick(queues: Sequence[Queue], places: Ints) -> Queue:
    """The jobs at ``places`` of all the ``queues`` together, in that order."""

    def picked(of: Callable[[Queue], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([of(queue) for queue in queues])[places]

    return Queue(
        submit_s=picked(lambda queue: queue.submit_s),
        gpus=picked(lambda queue: queue.gpus),
        may=picked(lambda queue: queue.may),
        time_s=picked(lambda queue: queue.time_s),
        high_s=picked(lambda queue: queue.high_s),
        energy_kwh=picked(lambda queue: queue.energy_kwh),
        limit_s=picked(lambda queue: queue.limit_s),
    )


def _occupied(jobs: Sequence[Job], estimated: np.ndarray, partitions: Sequence[Partition]) -> np.ndarray:
    """a_ij (n, m): the GPUs that each job occupies there. An exclusive job takes all of its nodes' (AllocTRES, not
    ReqTRES)."""
    asked = np.array([job.gpus_total for job in jobs], np.float64)[:, None]
    a_node = np.array([max((node.gpus for node in partition.nodes), default=1) for partition in partitions])
    whole = np.array([job.nodes * job.exclusive for job in jobs])[:, None] * a_node
    return np.maximum(np.where(whole > 0, whole, np.where(asked > 0, asked, estimated)), 1.0)


def _running(running: Sequence[RunningJob], partitions: Sequence[Partition]) -> Running:
    """Those that run on partitions that we know."""
    columns = {partition.name: j for j, partition in enumerate(partitions)}
    there = [entry for entry in running if entry.job.partitions[0] in columns]
    rows = []
    for entry in there:
        job, estimate = entry.job, entry.estimate
        time_s = (estimate and estimate.time_s) or UNKNOWN
        energy_kwh = (estimate and estimate.energy_kwh) or UNKNOWN
        longest_s = np.inf if job.time_limit_s is None else job.time_limit_s
        ends = (job.start_time + length for length in (time_s.p50, time_s.p90, longest_s))
        rows.append((*ends, energy_kwh.p50 * J_PER_KWH / max(time_s.p50, LEAST_S)))
    end_s, high_s, limit_s, power_w = np.array(rows, np.float64).reshape(-1, 4).T
    types = np.array([columns[entry.job.partitions[0]] for entry in there], np.int64)
    jobs = [entry.job for entry in there]
    every = _occupied(jobs, np.ones((len(jobs), len(partitions))), partitions)
    return Running(types, every[np.arange(len(jobs)), types], end_s, high_s, limit_s, power_w)


def shape_of(job: Job) -> Shape:
    """What the job needs of the nodes."""
    cpus = -(-job.cpus // max(job.nodes, 1))
    anywhere = job.gpus is not None and (job.gpus.per_job is not None or job.gpus.per_task is not None)
    per_node = None if anywhere else gpus_per_node(job.gpus, job.gpus_total, job.nodes)
    return _shape(job.gpus_total, job.nodes, per_node, cpus, job.memory_mb_per_node, job.exclusive)


_shape = lru_cache(maxsize=1024)(Shape)
"""One object for the many jobs that ask for the same."""
