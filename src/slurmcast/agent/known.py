"""What is known of each pending job whatever the others do, kept from plan to plan while the job stays the same.

Shapes: n pending jobs in the order of submission, m partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from slurmcast.agent.moment import pick, queue_of, shape_of
from slurmcast.eligibility import verdicts
from slurmcast.model import May, Partition, PendingJob, Snapshot, Verdict
from slurmcast.policy.base import Ints, Mask, Queue
from slurmcast.policy.capacity import Shape

T = TypeVar("T")

_FREEDOM = {May.LEAVE_ALONE: 0, May.ORDER_ONLY: 1, May.MOVE: 2}
"""What may be done with a job, as numbers that rise with it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What follows from n jobs' records and estimates, and from what partitions are like."""

    pending: list[PendingJob]
    verdicts: list[tuple[Verdict, ...]]
    """Of the m partitions each."""
    shapes: list[Shape]
    here: list[str]
    """The partitions that each has now, with commas."""
    home: Ints
    """Their index where it is one, (n,); else -1."""
    movable: Mask
    """Whether there is a choice to make, (n,)."""
    grace_until: Ints
    """Until when our own begin time holds each back, (n,); 0 where none does."""
    queue: Queue
    """``may``: all partitions to move to; where there are none, those that the job has and may be ordered on."""

    @classmethod
    def of(cls, pending: list[PendingJob], partitions: Sequence[Partition], now: float, billing: bool) -> Known:
        """Of jobs in the order of submission; ``billing``: whether they may go where they are billed more."""
        jobs = [p.job for p in pending]
        found = [verdicts(p, partitions, now, billing) for p in pending]
        answers = np.array([_FREEDOM[v.may] for row in found for v in row], np.int8)
        there = answers.reshape(len(pending), len(partitions))
        freedom = there.max(axis=1, initial=0)
        columns: dict[tuple[str, ...], int] = {(partition.name,): j for j, partition in enumerate(partitions)}
        graces = [p.grace_until if p.job.begin_time == p.grace_until else 0 for p in pending]
        return cls(
            pending,
            found,
            [shape_of(job) for job in jobs],
            [",".join(job.partitions) for job in jobs],
            np.array([columns.get(job.partitions, -1) for job in jobs], np.int64),
            freedom == _FREEDOM[May.MOVE],
            np.array(graces, np.int64),
            queue_of(pending, (there > 0) & (there == freedom[:, None]), partitions),
        )

    @property
    def ours(self) -> Mask:
        """With which jobs anything may be done, (n,)."""
        return np.asarray(self.queue.may.any(axis=1))

    def pick(self, others: Known, places: Ints) -> Known:
        """The jobs at ``places`` of these and the ``others`` together, in that order."""
        at = places.tolist()

        def items(mine: list[T], theirs: list[T]) -> list[T]:
            both = mine + theirs
            return [both[place] for place in at]

        return Known(
            items(self.pending, others.pending),
            items(self.verdicts, others.verdicts),
            items(self.shapes, others.shapes),
            items(self.here, others.here),
            np.concatenate([self.home, others.home])[places],
            np.concatenate([self.movable, others.movable])[places],
            np.concatenate([self.grace_until, others.grace_until])[places],
            pick((self.queue, others.queue), places),
        )


class Memo:
    """What the last plan knew of its jobs. It holds no others, and no plan differs for it."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._frame: object = None
        self._now = 0.0

    def known(self, snapshot: Snapshot, billing: bool) -> Known:
        """Of the snapshot's jobs that a plan is made for; looks only at those that weren't there, as the same object,
        in the last one. ``billing``: whether jobs may go where they are billed more."""
        pending, partitions, now = _ready(snapshot), snapshot.partitions, snapshot.now
        frame = [_lasting(partition) for partition in partitions], billing
        before = self._known if frame == self._frame and now >= self._now else None
        if before is None:
            found = Known.of(pending, partitions, now, billing)
        else:
            begun = self._now  # what is said of a job whose begin time lies ahead holds only until then
            kept = {id(p): place for place, p in enumerate(before.pending) if p.job.begin_time <= begun}
            places = np.array([kept.get(id(p), -1) for p in pending], np.int64)
            new = np.flatnonzero(places < 0)
            places[new] = len(before.pending) + np.arange(len(new))
            fresh = Known.of([pending[i] for i in new.tolist()], partitions, now, billing)
            found = before.pick(fresh, places)
        self._known, self._frame, self._now = found, frame, now
        return found


def _ready(snapshot: Snapshot) -> list[PendingJob]:
    """Pending jobs in the order of submission, without those whose estimate is on its way while their grace lasts."""
    ready = [p for p in snapshot.pending if p.final or p.grace_until <= snapshot.now]
    return sorted(ready, key=lambda p: (p.job.submit_time, p.job.job_id))


def _lasting(partition: Partition) -> Partition:
    """The partition without what is free at the moment: :class:`Known` doesn't depend on that."""
    nodes = [replace(node, gpus_free=0, cpus_free=0, memory_mb_free=0) for node in partition.nodes]
    return replace(partition, nodes=tuple(nodes))
