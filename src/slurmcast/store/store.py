"""The store: submissions, estimates, jobs, decisions, outcomes and kappa, in an SQLite file that the daemon writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast.codec import from_json, to_json
from slurmcast.model import Decision, Estimate, Job, Outcome, Reading
from slurmcast.store.schema import MIGRATIONS


class StoreError(Exception):
    """The store can't be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """What is stored of a submission when it comes in."""

    spool_name: str | None
    uid: int
    user: str
    name: str
    submit_time: int
    begin_time: int
    script_sha256: str
    complete: bool
    reading: Reading
    text_key: str
    named: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    script: bytes | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A submission as the store has it. ``reading.text`` is empty: it isn't kept."""

    id: int
    uid: int
    submit_time: int
    begin_time: int
    script_sha256: str
    reading: Reading
    text_key: str
    named: tuple[str, ...]
    arguments: tuple[str, ...]
    """argv[1:] of the batch script."""
    final: bool


@dataclass(frozen=True, slots=True)
class Label:
    """A finished run with what its submission was made of: material for training."""

    key: str
    text_key: str
    reading: Reading
    outcome: Outcome


class Store:
    """One connection, used by one thread at a time. Raises :class:`StoreError`, also on a full disk."""

    def __init__(self, path: Path, cluster: str) -> None:
        self._cluster = cluster
        try:
            self._db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;")
            self._migrate()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}; move the file away to start with an empty store") from None

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(f"the store is of a newer slurmcast (schema {version}); install that version again")
        for number, migration in enumerate(MIGRATIONS[version:], version + 1):
            self._db.executescript(f"BEGIN; {migration} PRAGMA user_version = {number}; COMMIT;")

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is written inside."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"the store can't be written: {error}; is the disk full?") from None

    # Submissions and estimates

    def add(self, new: NewSubmission, estimates: Sequence[Estimate]) -> int:
        """Store a submission with its first estimates, once for each spool file; the submission's id."""
        reading = to_json(new.reading) | {"text": ""}
        with self.transaction():
            row = self._db.execute("SELECT id FROM submission WHERE spool_name = ?", (new.spool_name,)).fetchone()
            if row is not None:
                return int(row[0])
            fields = {
                "spool_name": new.spool_name,
                "uid": new.uid,
                "user": new.user,
                "name": new.name,
                "submit_time": new.submit_time,
                "begin_time": new.begin_time,
                "script_sha256": new.script_sha256,
                "complete": int(new.complete),
                "key": new.reading.key,
                "reading": json.dumps(reading),
                "text_key": new.text_key,
                "named": ",".join(new.named) or None,
                "arguments": json.dumps(new.arguments),
                "script": new.script,
            }
            names, marks = ", ".join(fields), ", ".join("?" * len(fields))
            done = self._db.execute(f"INSERT INTO submission ({names}) VALUES ({marks})", tuple(fields.values()))
            submission = int(done.lastrowid or 0)
            self._put_estimates(submission, estimates)
        return submission

    def set_estimates(self, submission: int, estimates: Sequence[Estimate], final: bool) -> None:
        """Replace a submission's estimates."""
        with self.transaction():
            self._put_estimates(submission, estimates)
            self._db.execute("UPDATE submission SET final = ? WHERE id = ?", (int(final), submission))

    def _put_estimates(self, submission: int, estimates: Sequence[Estimate]) -> None:
        self._db.execute("DELETE FROM estimate WHERE submission = ?", (submission,))
        rows = [(submission, e.partition, json.dumps(to_json(e))) for e in estimates]
        self._db.executemany("INSERT INTO estimate VALUES (?, ?, ?)", rows)

    def estimates(self, submission: int) -> tuple[Estimate, ...]:
        rows = self._db.execute("SELECT estimate FROM estimate WHERE submission = ? ORDER BY partition", (submission,))
        return tuple(from_json(Estimate, json.loads(row[0])) for row in rows)

    def submission(self, submission: int) -> Stored:
        rows = self._db.execute(f"SELECT {_STORED} FROM submission WHERE id = ?", (submission,))
        return _stored(rows.fetchone())

    def unfinished(self) -> list[Stored]:
        """Submissions whose estimate by the present model is still to be made, newest first."""
        rows = self._db.execute(f"SELECT {_STORED} FROM submission WHERE final = 0 ORDER BY id DESC LIMIT 10000")
        return [_stored(row) for row in rows]

    def outdate_pending(self, since: int) -> None:
        """Have the submissions since then, whose job isn't known to have ended, estimated anew."""
        with self.transaction():
            self._db.execute(
                "UPDATE submission SET final = 0 WHERE submit_time >= ? AND NOT EXISTS (SELECT 1 FROM outcome "
                "WHERE outcome.job_id = submission.job_id AND outcome.submit_time = submission.submit_time)",
                (since,),
            )

    def expire(self, before: int) -> int:
        """Delete submissions older than that which never became a job (``--test-only``, rejected); how many."""
        with self.transaction():
            done = self._db.execute("DELETE FROM submission WHERE job_id IS NULL AND submit_time < ?", (before,))
        return done.rowcount

    # Jobs

    def job_submission(self, job: Job) -> int | None:
        """The submission that is known to have become this job."""
        row = self._db.execute(
            "SELECT submission FROM job WHERE cluster = ? AND job_id = ? AND submit_time = ?",
            (self._cluster, job.job_id, job.submit_time),
        ).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def unclaimed(self, uid: int, name: str, earliest: int, latest: int) -> list[Stored]:
        """That user's submissions of that name and time span which have not become a job yet, oldest first."""
        rows = self._db.execute(
            f"SELECT {_STORED} FROM submission WHERE uid = ? AND submit_time BETWEEN ? AND ? AND job_id IS NULL "
            "AND (name = ? OR name = '') ORDER BY id",
            (uid, earliest, latest, name),
        )
        return [_stored(row) for row in rows]

    def claim(self, job: Job, submission: int) -> None:
        """Remember that the submission became this job."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO job (cluster, job_id, submit_time, uid, user, name, submission) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET submission = excluded.submission",
                (self._cluster, job.job_id, job.submit_time, job.uid, job.user, job.name, submission),
            )
            where = (job.job_id, job.submit_time, submission)
            self._db.execute("UPDATE submission SET job_id = ?, submit_time = ? WHERE id = ?", where)

    def see(self, jobs: Iterable[Job]) -> None:
        """Remember pending jobs, whether or not their submission is known."""
        rows = [(self._cluster, j.job_id, j.submit_time, j.uid, j.user, j.name) for j in jobs]
        with self.transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO job (cluster, job_id, submit_time, uid, user, name) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def find_job(self, job_id: int) -> dict[str, Any] | None:
        """The newest job of that id: uid, user, name, submit_time, submission, decision; None where there is none."""
        row = self._db.execute(
            "SELECT uid, user, name, submit_time, submission, decision FROM job WHERE cluster = ? AND job_id = ? "
            "ORDER BY submit_time DESC",
            (self._cluster, job_id),
        ).fetchone()
        if row is None:
            return None
        names = ("uid", "user", "name", "submit_time", "submission", "decision")
        found = dict(zip(names, row, strict=True))
        found["decision"] = json.loads(found["decision"]) if found["decision"] else None
        return found

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Keep the last decision of each job, and all that changed something."""
        with self.transaction():
            for d in decisions:
                text = json.dumps(to_json(d))
                key = (self._cluster, d.job_id, d.submit_time)
                self._db.execute(
                    "UPDATE job SET decision = ? WHERE cluster = ? AND job_id = ? AND submit_time = ?", (text, *key)
                )
                if d.changed:
                    self._db.execute("INSERT INTO change VALUES (?, ?, ?, ?, ?)", (*key, d.at, text))

    def changes(self, job_id: int, submit_time: int) -> list[Decision]:
        rows = self._db.execute(
            "SELECT decision FROM change WHERE cluster = ? AND job_id = ? AND submit_time = ? ORDER BY at",
            (self._cluster, job_id, submit_time),
        )
        return [from_json(Decision, json.loads(row[0])) for row in rows]

    # Outcomes

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> int:
        """Store finished runs, each once; energy may be added later but is never taken away. How many were new."""
        new = 0
        with self.transaction():
            for o in outcomes:
                key = (self._cluster, o.job_id, o.submit_time, o.start_time)
                where = "cluster = ? AND job_id = ? AND submit_time = ? AND start_time = ?"
                row = self._db.execute(f"SELECT outcome FROM outcome WHERE {where}", key).fetchone()
                new += row is None
                if row is None or (o.energy_kwh is not None and json.loads(row[0])["energy_kwh"] is None):
                    text = json.dumps(to_json(o))
                    self._db.execute("INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?, ?)", (*key, text))
        return new

    def labels(self) -> list[Label]:
        """Completed runs whose submission is known."""
        rows = self._db.execute(
            "SELECT submission.key, text_key, reading, outcome "
            "FROM outcome JOIN job USING (cluster, job_id, submit_time) "
            "JOIN submission ON submission.id = job.submission ORDER BY outcome.start_time, outcome.job_id"
        )
        found = [
            Label(key, text_key, from_json(Reading, json.loads(reading)), from_json(Outcome, json.loads(outcome)))
            for key, text_key, reading, outcome in rows
        ]
        return [label for label in found if label.outcome.state == "COMPLETED"]

    # kappa

    def kappa(self) -> tuple[float, float, str] | None:
        """(value, since, by), or None where nobody ever set it."""
        row = self._db.execute("SELECT value, at, by FROM kappa ORDER BY at DESC, rowid DESC LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def set_kappa(self, value: float, at: float, by: str) -> None:
        with self.transaction():
            self._db.execute("INSERT INTO kappa VALUES (?, ?, ?)", (at, value, by))

    def counts(self) -> dict[str, int]:
        """Rows of the main tables, for health and metrics."""
        tables = ("submission", "estimate", "job", "outcome")
        return {t: int(self._db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in tables}


_STORED = "id, uid, submit_time, begin_time, script_sha256, reading, text_key, named, arguments, final"


def _stored(row: Sequence[Any]) -> Stored:
    reading = from_json(Reading, json.loads(row[5]))
    named = tuple(row[7].split(",")) if row[7] else ()
    return Stored(
        row[0], row[1], row[2], row[3], row[4], reading, row[6], named, tuple(json.loads(row[8])), bool(row[9])
    )
