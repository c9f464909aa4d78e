"""The store: submissions, estimates, jobs, runs, decisions and kappa, in an SQLite file that the daemon writes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple

from slurmcast.codec import from_json, to_json
from slurmcast.model import Decision, Estimate, Job
from slurmcast.store.database import THE_JOB, StoreError
from slurmcast.store.outcomes import Outcomes
from slurmcast.store.records import (
    STORED,
    KappaSetting,
    Known,
    Label,
    Link,
    NewSubmission,
    Origin,
    Stored,
    Version,
    readable,
    stored,
)

__all__ = ["KappaSetting", "Known", "Label", "Link", "NewSubmission", "Origin", "Store", "StoreError", "Stored"]

_KAPPA = "partition, qos, value, at, by"
"""The columns of a :class:`KappaSetting`."""
_NO_JOB = "NOT EXISTS (SELECT 1 FROM job WHERE job.submission = submission.id)"


class Store(Outcomes):
    """Queries on the store, each a transaction of its own. Raises :class:`StoreError`."""

    # Submissions and estimates

    def add(self, new: NewSubmission, estimates: Sequence[Estimate]) -> int:
        """Store a submission with its first estimates, once for each spool file; the submission's id."""
        with self.transaction():
            known = self._db.execute("SELECT id FROM submission WHERE spool_name = ?", (new.spool_name,)).fetchone()
            if known is not None:
                return int(known[0])
            submission = self._insert("submission", new.row())
            self._put_estimates(submission, estimates)
        return submission

    def revise(
        self, submission: int, new: NewSubmission, estimates: Sequence[Estimate], model: str | None = None
    ) -> None:
        """Put a better reading (of the whole script, with sources) and its estimates in the place of the former ones;
        nothing where the submission has expired. ``model``: what made them, None where they are still to be made."""
        row = {name: value for name, value in new.row().items() if name != "spool_name"}
        with self.transaction():
            columns = ", ".join(f"{name} = ?" for name in row)
            values = (*row.values(), model, submission)
            done = self._db.execute(f"UPDATE submission SET {columns}, model = ? WHERE id = ?", values)
            if done.rowcount:
                self._put_estimates(submission, estimates)

    def set_estimates(self, submission: int, estimates: Sequence[Estimate], model: str | None) -> None:
        """Replace a submission's estimates by those of ``model``, None where better ones are still to be made; nothing
        where the submission has expired."""
        with self.transaction():
            done = self._db.execute("UPDATE submission SET model = ? WHERE id = ?", (model, submission))
            if done.rowcount:
                self._put_estimates(submission, estimates)

    def _put_estimates(self, submission: int, estimates: Sequence[Estimate]) -> None:
        self._db.execute("UPDATE submission SET estimated_at = ? WHERE id = ?", (time.time(), submission))
        self._db.execute("DELETE FROM estimate WHERE submission = ?", (submission,))
        rows = [(submission, e.partition, e.source.value, json.dumps(to_json(e))) for e in estimates]
        self._db.executemany("INSERT INTO estimate VALUES (?, ?, ?, ?)", rows)

    def estimates(self, submission: int) -> tuple[Estimate, ...]:
        rows = self._db.execute("SELECT estimate FROM estimate WHERE submission = ? ORDER BY partition", (submission,))
        return tuple(from_json(Estimate, json.loads(row[0])) for row in rows)

    def submission(self, submission: int) -> Stored:
        """A submission that is there."""
        return stored(self._db.execute(f"SELECT {STORED} FROM submission WHERE id = ?", (submission,)).fetchone())

    def current(self, submission: int, text_key: str) -> Stored | None:
        """The submission; None where it has expired or been revised, so that its text is another one now."""
        query = f"SELECT {STORED} FROM submission WHERE id = ? AND text_key = ?"
        row = self._db.execute(query, (submission, text_key)).fetchone()
        return None if row is None else stored(row)

    def unclaimed(self, uid: int, earliest: int, latest: int) -> list[Stored]:
        """That user's submissions of that time span which aren't known to have become a job, oldest first."""
        rows = self._db.execute(
            f"SELECT {STORED} FROM submission WHERE uid = ? AND submit_time BETWEEN ? AND ? AND {_NO_JOB} ORDER BY id",
            (uid, earliest, latest),
        )
        return [stored(row) for row in rows]

    def expire(self, before: int) -> int:
        """Delete submissions older than that which never became a job (``--test-only``, rejected); how many."""
        with self.transaction():
            done = self._db.execute(f"DELETE FROM submission WHERE submit_time < ? AND {_NO_JOB}", (before,))
        return done.rowcount

    def scripts(self) -> dict[str, str]:
        """The scripts that were kept (``daemon.keep_scripts``), by their sha256."""
        rows = self._db.execute("SELECT DISTINCT script_sha256, script FROM submission WHERE script IS NOT NULL")
        return {sha256: script.decode("utf-8", "replace") for sha256, script in rows}

    # Jobs

    def see(self, jobs: Iterable[Job]) -> None:
        """Remember pending jobs, whether or not their submission is known."""
        rows = [(*self._key(job), job.uid, readable(job.user), readable(job.name)) for job in jobs]
        with self.transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO job (cluster, job_id, submit_time, uid, user, name) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def link(self, job: Job) -> Link | None:
        """The submission that the job was made of, None where that isn't known."""
        row = self._db.execute(f"SELECT submission, certain FROM job WHERE {THE_JOB}", self._key(job)).fetchone()
        return None if row is None or row[0] is None else Link(int(row[0]), bool(row[1]))

    def versions(self, jobs: Iterable[Job]) -> dict[tuple[int, int], Version]:
        """What the jobs, and the arrays that they are of, were made of, by job id and submit time, as far as that is
        known: of all at once, since :meth:`link` would be asked for thousands."""
        keys = {(number, job.submit_time) for job in jobs for number in (job.job_id, job.array_job_id) if number}
        rows = self._db.execute(
            "SELECT job.job_id, job.submit_time, submission.id, certain, model, estimated_at "
            "FROM json_each(?) AS wanted "
            "CROSS JOIN job ON job.cluster = ? AND job.job_id = wanted.value ->> 0 "
            "AND job.submit_time = wanted.value ->> 1 CROSS JOIN submission ON submission.id = job.submission",
            (json.dumps(list(keys)), self._cluster),
        )
        return {(row[0], row[1]): Version(row[2], bool(row[3]), row[4], row[5]) for row in rows}

    def claim(self, job: Job, submission: int, certain: bool = True) -> None:
        """Remember that the submission became this job, which :meth:`see` has seen."""
        with self.transaction():
            self._claim(self._key(job), submission, certain)

    def swap(self, job: Job, submission: int) -> None:
        """Like :meth:`claim`; a job that had been taken for the submission's gets what this one had instead."""
        with self.transaction():
            had = self.link(job)
            where = "submission = ? AND certain = 0 AND cluster = ?"
            values = (had.submission if had else None, submission, self._cluster)
            self._db.execute(f"UPDATE job SET submission = ? WHERE {where}", values)
            self._claim(self._key(job), submission, certain=True)

    def _claim(self, key: tuple[str, int, int], submission: int, certain: bool) -> None:
        values = (submission, int(certain), *key)
        self._db.execute(f"UPDATE job SET submission = ?, certain = ? WHERE {THE_JOB}", values)

    def doubtful(self, uid: int, earliest: int, latest: int) -> list[Stored]:
        """That user's submissions of that time span which may have been taken for the wrong job's, oldest first."""
        rows = self._db.execute(
            f"SELECT {STORED} FROM submission WHERE uid = ? AND submit_time BETWEEN ? AND ? AND EXISTS "
            "(SELECT 1 FROM job WHERE job.submission = submission.id AND certain = 0) ORDER BY id",
            (uid, earliest, latest),
        )
        return [stored(row) for row in rows]

    def before_requeue(self, job: Job) -> int | None:
        """The submission of a requeued job, which Slurm gives a new submit time: that of its last run."""
        row = self._db.execute(
            "SELECT submission FROM job WHERE cluster = ? AND job_id = ? AND submit_time < ? AND uid = ? AND name = ? "
            "AND submission IS NOT NULL ORDER BY submit_time DESC LIMIT 1",
            (*self._key(job), job.uid, readable(job.name)),
        ).fetchone()
        return None if row is None else int(row[0])

    def find_job(self, job_id: int, submit_time: int | None = None) -> Known | None:
        """The job of that id, the newest where no submit time is given; None where there is none."""
        row = self._db.execute(
            "SELECT job_id, submit_time, uid, user, name, submission, decision FROM job "
            "WHERE cluster = ? AND job_id = ? AND submit_time = coalesce(?, submit_time) ORDER BY submit_time DESC",
            (self._cluster, job_id, submit_time),
        ).fetchone()
        if row is None:
            return None
        number, submitted, uid, user, name, submission, decision = row
        return Known(number, submitted, uid, user, name, submission, json.loads(decision) if decision else None)

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Keep the last decision of each job, and all that changed something."""
        with self.transaction():
            for d in decisions:
                text = json.dumps(to_json(d))
                key = (self._cluster, d.job_id, d.submit_time)
                self._db.execute(f"UPDATE job SET decision = ? WHERE {THE_JOB}", (text, *key))
                if d.changed:
                    self._db.execute("INSERT INTO change VALUES (?, ?, ?, ?, ?)", (*key, d.at, text))

    def changes(self, job_id: int, submit_time: int) -> list[Decision]:
        """The job's decisions that changed something in Slurm, oldest first."""
        key = (self._cluster, job_id, submit_time)
        rows = self._db.execute(f"SELECT decision FROM change WHERE {THE_JOB} ORDER BY at", key)
        return [from_json(Decision, json.loads(row[0])) for row in rows]

    def _key(self, job: Job) -> tuple[str, int, int]:
        return self._cluster, job.job_id, job.submit_time

    # kappa

    def kappas(self) -> list[KappaSetting]:
        """What was set last for each partition, each QOS and for all."""
        query = f"SELECT {_KAPPA} FROM kappa WHERE rowid IN (SELECT max(rowid) FROM kappa GROUP BY partition, qos)"
        return [KappaSetting(*row) for row in self._db.execute(query)]

    def kappa_history(self, limit: int) -> list[KappaSetting]:
        """The latest settings, the newest first."""
        rows = self._db.execute(f"SELECT {_KAPPA} FROM kappa ORDER BY rowid DESC LIMIT ?", (limit,))
        return [KappaSetting(*row) for row in rows]

    def set_kappa(self, setting: KappaSetting) -> None:
        with self.transaction():
            self._db.execute(f"INSERT INTO kappa ({_KAPPA}) VALUES (?, ?, ?, ?, ?)", astuple(setting))

    # Numbers for health and metrics

    def counts(self) -> dict[str, int]:
        """Rows of the main tables."""
        tables = ("submission", "estimate", "job", "outcome", "unencoded")
        return {t: int(self._db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]) for t in tables}

    def estimates_by_source(self) -> dict[str, int]:
        return {source: int(n) for source, n in self._db.execute("SELECT source, count(*) FROM estimate GROUP BY 1")}
