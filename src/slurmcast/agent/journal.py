"""The journal: what each job had before the agent touched it, append-only JSON lines, synced before Slurm is asked.

``release`` needs nothing else. A torn last line (power cut, full disk) is passed over: the update that it announced was
never sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.files import append
from slurmcast.model import Change, Job

Key = tuple[int, int]
"""Job id and submit time: ids wrap."""

COMPACT_FROM = 1000
"""So many finished jobs are worth rewriting the file."""


@dataclass(frozen=True, slots=True)
class Before:
    """What one job had before its first change, and what was changed since."""

    job_id: int
    submit_time: int
    partition: str
    site_factor: int
    begin_time: int
    nice: int = 0
    places: tuple[str, ...] = ()
    """All partitions that the agent ever asked for: whether the last came true isn't known after a crash."""
    taken_over: bool = False
    """Whether somebody else moved it after the agent did."""
    ordered: bool = False
    """Whether one of our changes set its site factor."""
    pinned: bool = False
    """Whether one of our changes set the priority itself."""

    @property
    def key(self) -> Key:
        return self.job_id, self.submit_time


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a change, when it was decided, and what the job had before the agent first touched it."""

    at: float
    change: Change
    partition: str
    site_factor: int
    begin_time: int
    nice: int = 0
    taken_over: bool = False


class Journal:
    """The journal file. Only the agent writes it. Raises OSError where the disk doesn't take it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = read(path)

    def before(self, job: Job) -> Before | None:
        """What the job had before its first change, or None where it was never changed."""
        return lookup(self._before, job.job_id, job.submit_time, job.array_job_id, bool(job.restarts))

    def take_over(self, at: float, jobs: Iterable[Job]) -> None:
        """Record that somebody else moved these jobs, so that they stay there also after a restart."""
        entries = [self._entry(at, Change(job.job_id, job.submit_time, "Somebody else moved it."), job) for job in jobs]
        self._append([replace(entry, taken_over=True) for entry in entries])

    def write(self, at: float, changes: Iterable[tuple[Change, Job]]) -> None:
        """Record changes that are about to be made, with the jobs as they are. Returns when the disk has them."""
        self._append([self._entry(at, change, job) for change, job in changes])

    def _append(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        append(self._path, *(json.dumps(to_json(entry)) for entry in entries), durable=True)
        for entry in entries:
            _remember(self._before, entry)

    def _entry(self, at: float, change: Change, job: Job) -> Entry:
        first = self.before(job)
        if first is not None:
            return Entry(at, change, first.partition, first.site_factor, first.begin_time, first.nice)
        return Entry(at, change, ",".join(job.partitions), job.site_factor, job.begin_time, job.nice)

    def compact(self, pending: Collection[Job]) -> None:
        """Forget jobs that are no longer pending, where they are the bulk of the file."""
        alive = {(job.job_id, job.submit_time) for job in pending}
        alive |= {(job.array_job_id, job.submit_time) for job in pending if job.array_job_id}
        requeued = {number for job in pending if job.restarts for number in (job.job_id, job.array_job_id)}
        gone = {key for key in self._before if key not in alive and key[0] not in requeued}
        if len(gone) < max(COMPACT_FROM, len(alive)):
            return
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            for line in _lines(self._path):
                entry = _parse(line)
                if entry is not None and (entry.change.job_id, entry.change.submit_time) not in gone:
                    file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self._before = {key: before for key, before in self._before.items() if key not in gone}


def lookup(
    known: Mapping[Key, Before], job_id: int, submit_time: int, array_job_id: int, requeued: bool
) -> Before | None:
    """What is known of a job: under its own id, or that of the array from which the task was split off.

    A requeued job has a new submit time, but still has what we gave it.
    """
    for number in (job_id, array_job_id):
        if (number, submit_time) in known:
            return known[number, submit_time]
    if not requeued:
        return None
    for number in (job_id, array_job_id):
        earlier = [b for b in known.values() if b.job_id == number and b.submit_time < submit_time]
        if earlier:
            return max(earlier, key=lambda b: b.submit_time)
    return None


def read(path: Path) -> dict[Key, Before]:
    """(job id, submit time) -> what that job had; empty where there is no journal."""
    found: dict[Key, Before] = {}
    for line in _lines(path):
        if (entry := _parse(line)) is not None:
            _remember(found, entry)
    return found


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def _parse(line: bytes) -> Entry | None:
    try:
        return from_json(Entry, json.loads(line))
    except (ValueError, CodecError):
        return None


def _remember(found: dict[Key, Before], entry: Entry) -> None:
    change = entry.change
    key = (change.job_id, change.submit_time)
    first = found.get(key) or Before(*key, entry.partition, entry.site_factor, entry.begin_time, entry.nice)
    found[key] = Before(
        *key,
        first.partition,
        first.site_factor,
        first.begin_time,
        first.nice,
        places=tuple(dict.fromkeys([*first.places, *([change.partition] if change.partition else [])])),
        taken_over=first.taken_over or entry.taken_over,
        ordered=first.ordered or change.site_factor is not None,
        pinned=first.pinned or change.priority is not None,
    )
