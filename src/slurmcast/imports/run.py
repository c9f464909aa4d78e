"""The import: accounting, window by window, through slurmcastd into the store.

A mark is set after each window that is stored whole. What is sent twice after a kill is stored once, so nothing is lost
and nothing doubled. What is held in memory is one chunk of runs with their scripts.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from slurmcast.capture import as_json_text
from slurmcast.client import TOO_LONG, Client, ClientError
from slurmcast.cluster.accounting import Accounting, Record, TooMuch, outcome
from slurmcast.cluster.base import ClusterError
from slurmcast.codec import to_json
from slurmcast.imports import mark
from slurmcast.imports.mark import Mark
from slurmcast.imports.submission import identity, submission
from slurmcast.imports.windows import Windows
from slurmcast.model import Outcome, Submission
from slurmcast.store.past import PastRun

T = TypeVar("T")
_Job = tuple[int, int]
"""Base id and submit time, see :func:`job`."""
_Run = tuple[Record, Outcome]

log = logging.getLogger("slurmcast.import")

CHUNK = 250
"""Runs whose scripts are read at a time, and that go into one request."""
MAX_SCRIPTS = 1 << 20
"""Bytes of scripts in one request, unless a single one is longer; packed they are mostly short enough for munge."""
MAX_SENT = 100_000
"""Submissions that are remembered as sent; one that is forgotten is sent again."""
MAX_ARRAYS = 1000
"""Arrays whose script is remembered for their next tasks."""
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Between tries while slurmcastd is away, which it is for some seconds when it is restarted."""
TOO_WIDE = "too wide"
"""What slurmdbd says of a window that is longer than its MaxQueryTimeRange."""
FIRST = 1627776000
"""2021-08-01: Slurm 21.08 is the first that keeps scripts."""


class Count(StrEnum):
    """What is counted."""

    RECORDS = "records"
    RUNS = "runs"
    COMPLETED = "completed"
    SCRIPTS = "with_script"
    TOO_LONG = "script_too_long"
    ELSEWHERE = "other_partition"
    NO_GPUS = "without_gpus"
    NEVER_RAN = "never_ran"
    UNSOUND = "unsound_times"


def judged(record: Record, managed: Collection[str]) -> Outcome | Count:
    """The run to keep, or why the record is none."""
    if record.partition not in managed:
        return Count.ELSEWHERE
    if not record.start_time:
        return Count.NEVER_RAN
    if record.start_time > record.end_time:
        return Count.UNSOUND
    return outcome(record) if record.gpus else Count.NO_GPUS


def job(record: Record) -> _Job:
    """What was submitted together: the tasks of an array have one script."""
    return record.array_job_id or record.job_id, record.submit_time


@dataclass
class Import:
    """Brings runs that ended into the store. Raises ClusterError and ClientError where Slurm or slurmcastd fails for
    good, OSError where the mark can't be written."""

    accounting: Accounting
    client: Client
    managed: frozenset[str]
    mark_file: Path
    told: Callable[[Mark], None] = lambda _: None
    """Called after each window."""
    new: int = 0
    """Runs that the store hadn't."""
    reached: int = 0
    """What :meth:`run` has come to, in Unix seconds."""
    _sent: dict[str, bool] = field(default_factory=dict)
    """Identity of each submission that the daemon has -> whether it was told of a completed run."""
    _left_out: set[str] = field(default_factory=set)
    """Identities of submissions that can't be sent."""
    _arrays: dict[_Job, Submission | None] = field(default_factory=dict)

    def run(self, start: Mark, until: int) -> Mark:
        """Import what ended from ``start`` up to ``until`` (Unix seconds); the last mark."""
        done, windows = start, Windows()
        self.reached = done.until
        while done.until < until:
            end = min(done.until + windows.length_s, until)
            try:
                counts = self._window(done.until, end)
            except ClusterError as error:
                shorter = windows.halved() if TOO_WIDE in str(error).lower() else None
                if shorter is None:
                    raise
                windows = shorter
                continue
            done = done.advanced(end, counts)
            mark.save(self.mark_file, done)
            self.reached = done.until
            windows = windows.after(counts[Count.RECORDS])
            self.told(done)
        return done

    def _window(self, since: int, until: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for chunk in _chunks(self._kept(since, until, counts), CHUNK):
            self._bring(chunk, since, until, counts)
        return counts

    def _bring(self, chunk: list[_Run], since: int, until: int, counts: Counter[str]) -> None:
        try:
            submitted = self._submitted([record for record, _ in chunk], since, until)
        except TooMuch:
            middle = len(chunk) // 2
            self._bring(chunk[:middle], since, until, counts)
            self._bring(chunk[middle:], since, until, counts)
            return
        counts[Count.RUNS] += len(chunk)
        counts[Count.COMPLETED] += sum(run.state == "COMPLETED" for _, run in chunk)
        names = {key: identity(found) for key, found in submitted.items() if found is not None}
        self._send(chunk, submitted, names)
        said = [name for record, _ in chunk if (name := names.get(job(record)))]
        counts[Count.SCRIPTS] += sum(name not in self._left_out for name in said)
        if missing := sum(name in self._left_out for name in said):
            counts[Count.TOO_LONG] += missing

    def _kept(self, since: int, until: int, counts: Counter[str]) -> Iterator[_Run]:
        for record in self.accounting.ended(since, until):
            counts[Count.RECORDS] += 1
            found = judged(record, self.managed)
            if isinstance(found, Outcome):
                yield record, found
            else:
                counts[found] += 1

    def _submitted(self, records: Iterable[Record], since: int, until: int) -> dict[_Job, Submission | None]:
        """What was submitted for each job, None where its script isn't known."""
        jobs = {job(record): record for record in records}
        asked = [r.label for key, r in jobs.items() if key not in self._arrays and _has_script(r)]
        scripts = {label: text for label, text in self.accounting.scripts(asked, since, until).items() if text}
        environments = self.accounting.environments(list(scripts), since, until)
        found: dict[_Job, Submission | None] = {}
        for key, record in jobs.items():
            if key in self._arrays:
                found[key] = self._arrays[key]
            elif record.label in scripts:
                found[key] = submission(record, scripts[record.label], environments[record.label])
            else:
                found[key] = None
        arrays = [(key, found[key]) for key, record in jobs.items() if record.array_job_id]
        self._arrays = dict([*self._arrays.items(), *arrays][-MAX_ARRAYS:])
        return found

    def _send(self, chunk: list[_Run], submitted: Mapping[_Job, Submission | None], names: Mapping[_Job, str]) -> None:
        """Hand over the runs, each after or with what was submitted for it. ``names``: the identities of that."""
        by_name = {name: found for key, name in names.items() if (found := submitted[key]) is not None}
        runs: list[PastRun] = []
        new: dict[str, Submission] = {}
        size = 0
        for record, run in chunk:
            name = names.get(job(record))
            runs.append(PastRun(run, record.uid, record.name, name))
            completed = run.state == "COMPLETED"
            if name is not None and (name not in self._sent or (completed and not self._sent[name])):
                new[name] = by_name[name]
                self._sent[name] = completed
                size += len(new[name].script)
            if size > MAX_SCRIPTS:
                self._post(runs, new, by_name)
                runs, new, size = [], {}, 0
        if runs:
            self._post(runs, new, by_name)
        if len(self._sent) > MAX_SENT:
            self._sent.clear()

    def _post(self, runs: list[PastRun], new: dict[str, Submission], known: Mapping[str, Submission]) -> None:
        stored, unknown = self._told(runs, new)
        self.new += stored
        if unknown:  # its store is another one than before, or has forgotten them
            self._told(runs, {name: known[name] for name in unknown})

    def _told(self, runs: list[PastRun], new: Mapping[str, Submission]) -> tuple[int, set[str]]:
        """Hand over in as many requests as it takes; a script that is too long even alone is left out. How many runs
        were new, and the identities that the daemon doesn't know."""
        runs = [replace(run, identity=None) if run.identity in self._left_out else run for run in runs]
        new = {name: found for name, found in new.items() if name not in self._left_out}
        try:
            answer = self._request(runs, new)
            return answer["new"], set(answer["unknown"])
        except ClientError as error:
            if error.status != TOO_LONG or not new:
                raise
            if len(runs) == 1:
                log.warning("job %d goes without its script: %s", runs[0].outcome.job_id, error)
                self._left_out.update(new)
                return self._told(runs, {})
        half = len(runs) // 2
        stored, unknown = self._told(runs[:half], _of(runs[:half], new))
        more, others = self._told(runs[half:], _of(runs[half:], new))
        return stored + more, unknown | others

    def _request(self, runs: list[PastRun], new: Mapping[str, Submission]) -> dict[str, Any]:
        submissions = {name: to_json(found) | {"script": as_json_text(found.script)} for name, found in new.items()}
        body = {"runs": to_json(runs), "submissions": submissions}
        for pause_s in PAUSES_S:
            try:
                return dict(self.client.request("POST", "/v1/agent/import", body))
            except ClientError as error:
                if error.status not in (0, 503):
                    raise
                log.warning("trying again in %g s: %s", pause_s, error)
                time.sleep(pause_s)
        return dict(self.client.request("POST", "/v1/agent/import", body))


def _of(runs: Iterable[PastRun], submissions: Mapping[str, Submission]) -> dict[str, Submission]:
    """What was submitted for these runs."""
    names = {run.identity for run in runs}
    return {name: found for name, found in submissions.items() if name in names}


def _has_script(record: Record) -> bool:
    """Whether there can be a script that is this run's work: a heterogeneous job's is all components' together."""
    return not record.heterogeneous and not record.submit_line.startswith(("srun ", "salloc "))


def _chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while chunk := list(islice(items, size)):
        yield chunk
