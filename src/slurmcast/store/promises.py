"""What was promised of each run before it ended, beside how it ended: what drift is told by.

Estimates are made anew while a job waits, for the next task of its array, and after it was requeued: then they know how
earlier runs ended. So what a run had when the daemon first heard of its start is kept apart, once and for all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from slurmcast.codec import from_json
from slurmcast.model import Estimate, Job, Outcome
from slurmcast.store.database import Database

_KEEP = (
    "INSERT OR IGNORE INTO promise "
    "SELECT :cluster, :job_id, :submit_time, :start_time, submission.key, model, estimated_at, estimate FROM job "
    "JOIN submission ON submission.id = job.submission AND estimated_at < :before "
    "JOIN estimate ON estimate.submission = submission.id AND estimate.partition = :partition "
    "WHERE job.cluster = :cluster AND job.job_id = :submitted_id AND job.submit_time = :submit_time"
)
_KEPT = (
    "SELECT promise.key, model, estimate, outcome FROM promise "
    "JOIN outcome USING (cluster, job_id, submit_time, start_time) WHERE cluster = ? AND outcome.state = 'COMPLETED' "
)


@dataclass(frozen=True, slots=True)
class Promise:
    """A completed run and what was expected of it on its partition."""

    key: str
    """Of its work: model.Reading.key."""
    model: str | None
    """The model that was in use, '': none; None where a better estimate was still being made."""
    estimate: Estimate
    outcome: Outcome


class LastRun(NamedTuple):
    """The run of a job that began last. Times in Unix seconds and seconds."""

    start_time: int
    state: str
    """How it ended; empty: nothing is known of its end."""
    partition: str
    elapsed_s: float
    of_array: bool
    """Whether it is but one task of several."""


class Promises(Database):
    """The promises of one cluster. Raises :class:`slurmcast.store.database.StoreError`."""

    def promise_started(self, jobs: Iterable[Job]) -> None:
        """Keep what is expected of jobs that are seen to run; of each run what is kept first stays."""
        self._keep((_run(job, job.partitions[0]) | {"before": float("inf")}) for job in jobs if job.partitions)

    def promise_ended(self, outcomes: Iterable[Outcome]) -> None:
        """The same of runs that were never seen to run: what was made after their end is no promise."""
        self._keep((_run(outcome, outcome.partition) | {"before": outcome.end_time}) for outcome in outcomes)

    def _keep(self, runs: Iterable[dict[str, object]]) -> None:
        with self.transaction():
            self._db.executemany(_KEEP, [run | {"cluster": self._cluster} for run in runs])

    def last_run(self, job_id: int, submit_time: int) -> LastRun | None:
        """Of a job as it was submitted; None where none has begun, as far as is known."""
        where = "WHERE cluster = ? AND job_id = ? AND submit_time = ?"
        key = (self._cluster, job_id, submit_time)
        begun = self._db.execute(f"SELECT start_time, estimate FROM promise {where}", key)
        runs = [LastRun(start, "", json.loads(text)["partition"], 0.0, False) for start, text in begun]
        for (text,) in self._db.execute(f"SELECT outcome FROM outcome {where}", key):
            o = from_json(Outcome, json.loads(text))
            runs.append(LastRun(o.start_time, o.state, o.partition, o.elapsed_s, o.array_job_id > 0))
        return max(runs, default=None)

    def promises(self, model: str) -> list[Promise]:
        """What ``model`` promised of completed runs, in the order in which they ended."""
        return self._kept(f"{_KEPT} AND model = ?", model)

    def last_promises(self, limit: int) -> list[Promise]:
        """The same of the ``limit`` completed runs that started last, whatever model was in use."""
        return self._kept(f"{_KEPT} ORDER BY start_time DESC LIMIT ?", limit)

    def _kept(self, query: str, value: object) -> list[Promise]:
        with self.reading():
            found = [
                Promise(key, model, from_json(Estimate, json.loads(estimate)), from_json(Outcome, json.loads(outcome)))
                for key, model, estimate, outcome in self._db.execute(query, (self._cluster, value))
            ]
        possible = (promise for promise in found if promise.outcome.is_possible)
        return sorted(possible, key=lambda promise: (promise.outcome.end_time, promise.outcome.job_id))


def _run(run: Job | Outcome, partition: str) -> dict[str, object]:
    return {
        "job_id": run.job_id,
        "submitted_id": run.array_job_id or run.job_id,
        "submit_time": run.submit_time,
        "start_time": run.start_time,
        "partition": partition,
    }
