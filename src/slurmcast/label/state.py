"""What was submitted and what came of it: an append-only file of JSON lines, from which a killed call goes on.

A job array is written down before Slurm is asked for it, under an id that stands in the job's comment. So after a crash
it is found in Slurm's queue or accounting, or was never submitted. The file is locked, and sbatch inherits the lock: as
long as an sbatch of a killed call still tries, no other call can begin.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.files import naming
from slurmcast.label.words import NO_BOUND, Batch, Budget, Run

PATIENCE_S = 20.0
"""How long the lock may be held by what a killed call has left: an sbatch, or what that hands the sources over."""

MOST = 1e15
"""No number in the file is so large."""


class StateError(Exception):
    """The file can't be used; the message says what to do."""


class State:
    """The file at ``path``, which is made where it isn't there. Raises :class:`StateError`; OSError on a full disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batches: dict[str, Batch] = {}
        self.runs: dict[tuple[str, int, int], Run] = {}
        self.budget = NO_BOUND
        """The last that somebody gave, if anybody did."""
        self._over: dict[str, set[int]] = {}
        try:
            self.file = path.open("a+b", buffering=0)
        except OSError as error:
            raise StateError(f"{path}: {error.strerror}; give another file by --state") from None
        facts = os.fstat(self.file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise StateError(f"{path}: not a plain file; give another one by --state")
        if facts.st_uid != os.geteuid():  # it names jobs that may be cancelled
            raise StateError(f"{path}: another user's; give another file by --state")
        self._lock()
        self.file.seek(0)
        text = self.file.read()
        readable = sum(self._remember(line) for line in text.split(b"\n"))
        if text and not readable:
            raise StateError(f"{path}: not written by slurmcast label; give another file by --state")
        if text and not text.endswith(b"\n"):
            with naming(path):
                self.file.write(b"\n")  # closes what a full disk or a power cut has left, which is passed over

    def _lock(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    message = f"{self.path}: another slurmcast label uses it; wait for its end, or give another --state"
                    raise StateError(message) from None
                time.sleep(0.1)

    def _remember(self, line: bytes) -> bool:
        """Take in one line; False where it can't be read, being torn: what it was to say is asked of Slurm again."""
        try:
            event = json.loads(line, parse_int=_whole, parse_float=_amount, parse_constant=_amount)
            if "batch" in event:
                batch = from_json(Batch, event["batch"])
                self.batches[batch.id] = batch
            elif "run" in event:
                self._take(from_json(Run, event["run"]))
            elif "budget" in event:
                self.budget = from_json(Budget, event["budget"])
            else:
                self.batches.pop(event["void"], None)
        except (ValueError, TypeError, KeyError, RecursionError, CodecError):
            return False
        return True

    def _append(self, events: Iterable[dict[str, Any]]) -> None:
        """Returns when the disk has them."""
        left = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        with naming(self.path):
            while left:  # where the disk ends within a line, part of it is written, and only the next try says so
                left = left[self.file.write(left) :]
            os.fsync(self.file.fileno())

    def allow(self, budget: Budget) -> None:
        """Write down what may be spent from now on."""
        if budget != self.budget:
            self._append([{"budget": to_json(budget)}])
            self.budget = budget

    def intend(self, batch: Batch) -> None:
        """Write down that ``batch`` is about to be submitted."""
        self._append([{"batch": to_json(batch)}])
        self.batches[batch.id] = batch

    def submitted(self, batch: Batch, job_id: int) -> None:
        """Slurm took it."""
        self.intend(replace(batch, job_id=job_id))

    def refused(self, batch: Batch, reason: str) -> None:
        """Slurm will never take it."""
        self.intend(replace(batch, refused=reason))

    def void(self, batch: Batch) -> None:
        """It never came to Slurm, and may be tried again."""
        self._append([{"void": batch.id}])
        del self.batches[batch.id]

    def ended(self, runs: Iterable[Run]) -> None:
        """Write down runs, new ones or such of which more is known now."""
        new = [run for run in runs if self.runs.get((run.batch, run.task, run.start)) != run]
        if new:
            self._append({"run": to_json(run)} for run in new)
        for run in new:
            self._take(run)

    def _take(self, run: Run) -> None:
        self.runs[run.batch, run.task, run.start] = run
        if run.final:
            self._over.setdefault(run.batch, set()).add(run.task)

    def open_tasks(self, batch: Batch) -> list[int]:
        """The runs of ``batch`` that aren't over, by their place in the array."""
        over = range(batch.runs) if batch.refused else self._over.get(batch.id, ())
        return [task for task in range(batch.runs) if task not in over]


def _amount(text: str) -> float:
    """A number of the file: none is negative, and what isn't finite would make every sum so."""
    value = float(text)
    if not 0 <= value < MOST:
        raise ValueError(f"{text}: not a number of this file")
    return value


def _whole(text: str) -> int:
    _amount(text)
    return int(text)
