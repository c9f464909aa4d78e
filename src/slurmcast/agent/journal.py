"""The journal: what each job had before the agent touched it, append-only JSON lines, synced before Slurm is asked.

``release`` needs nothing else. A torn last line (power cut, full disk) is passed over: the update that it announced was
never sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.model import Change, Job


@dataclass(frozen=True, slots=True)
class Before:
    """What one job had before its first change."""

    job_id: int
    submit_time: int
    partition: str
    site_factor: int
    begin_time: int
    ordered: bool = False
    """Whether one of our changes set its site factor."""
    pinned: bool = False
    """Whether one of our changes set the priority itself."""
    lifted: bool = False
    """Whether its begin time, the hook's grace, was lifted."""

    @property
    def key(self) -> tuple[int, int]:
        return self.job_id, self.submit_time


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a change, when it was decided, and what the job had just before it."""

    at: float
    change: Change
    partition: str
    site_factor: int
    begin_time: int


class Journal:
    """The journal file. Only the agent writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = read(path)

    def before(self, job_id: int, submit_time: int) -> Before | None:
        """What the job had before its first change, or None where it was never changed."""
        return self._before.get((job_id, submit_time))

    def write(self, at: float, changes: Iterable[tuple[Change, Job]]) -> None:
        """Record changes that are about to be made, with the jobs as they are. Returns when the disk has them."""
        entries = [Entry(at, c, ",".join(job.partitions), job.site_factor, job.begin_time) for c, job in changes]
        if not entries:
            return
        fresh = not self._path.exists()
        with self._path.open("ab") as file:
            if not fresh and not _ends_with_newline(self._path):
                file.write(b"\n")  # closes a torn line, so that this one can be read
            file.writelines(json.dumps(to_json(entry)).encode() + b"\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())
        for entry in entries:
            _remember(self._before, entry)

    def compact(self, alive: set[tuple[int, int]]) -> None:
        """Forget jobs that are no longer pending, where they are the bulk of the file."""
        gone = [key for key in self._before if key not in alive]
        if len(gone) < 1000 or len(gone) < len(alive):
            return
        for key in gone:
            del self._before[key]
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            for line in _lines(self._path):
                entry = _entry(line)
                if entry is not None and (entry.change.job_id, entry.change.submit_time) in alive:
                    file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def read(path: Path) -> dict[tuple[int, int], Before]:
    """(job id, submit time) -> what that job had; empty where there is no journal."""
    found: dict[tuple[int, int], Before] = {}
    for line in _lines(path):
        if (entry := _entry(line)) is not None:
            _remember(found, entry)
    return found


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def _entry(line: bytes) -> Entry | None:
    try:
        return from_json(Entry, json.loads(line))
    except (ValueError, CodecError):
        return None


def _remember(found: dict[tuple[int, int], Before], entry: Entry) -> None:
    change = entry.change
    key = (change.job_id, change.submit_time)
    first = found.get(key) or Before(*key, entry.partition, entry.site_factor, entry.begin_time)
    found[key] = Before(
        *key,
        first.partition,
        first.site_factor,
        first.begin_time,
        ordered=first.ordered or change.site_factor is not None,
        pinned=first.pinned or change.priority is not None,
        lifted=first.lifted or change.lift_grace,
    )


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
