"""The store: submissions, estimates, jobs, decisions, outcomes and kappa, in an SQLite file that the daemon writes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from typing import Any

from slurmcast.codec import from_json, to_json
from slurmcast.meter.record import SLACK_S, EnergyRecord, filled, is_measured, join
from slurmcast.model import Decision, Estimate, Job, Outcome, Reading
from slurmcast.store.database import THE_JOB, StoreError
from slurmcast.store.promises import Promises
from slurmcast.store.records import (
    MOST_KIN,
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

log = logging.getLogger("slurmcast.store")

_LABELS = (
    "SELECT submission.uid, submission.name, script_sha256, submission.key, text_key, reading, outcome FROM submission "
    "CROSS JOIN job ON job.submission = submission.id AND job.cluster = ? "
    "CROSS JOIN outcome INDEXED BY outcome_submitted ON outcome.cluster = job.cluster "
    "AND outcome.submitted_id = job.job_id AND outcome.submit_time = job.submit_time AND outcome.state = 'COMPLETED' "
    "AND NOT EXISTS (SELECT 1 FROM outcome AS part WHERE part.cluster = outcome.cluster "
    "AND part.job_id = outcome.job_id AND part.start_time < outcome.start_time AND part.state = 'RESIZING' "
    "AND part.outcome ->> 'end_time' = outcome.start_time) "
)
"""Completed runs whose submission is known, but for the last part of a job that was resized. CROSS JOIN keeps SQLite to
this order: each step has an index."""
_AT_A_TIME = 1000
"""Labels that are decoded together."""
_KAPPA = "partition, qos, value, at, by"
"""The columns of a :class:`KappaSetting`."""
_NO_JOB = "NOT EXISTS (SELECT 1 FROM job WHERE job.submission = submission.id)"


class Store(Promises):
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

    # Outcomes

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> int:
        """Store finished runs, each once; what was measured may be added later but is never taken away or changed.
        Impossible ones are left out. How many were new."""
        new = 0
        with self.transaction():
            for told in outcomes:
                if not told.is_possible:
                    log.error("a run of job %d is left out, its time or energy can't be: %s", told.job_id, told)
                    continue
                key = (self._cluster, told.job_id, told.submit_time, told.start_time)
                where = f"{THE_JOB} AND start_time = ?"
                row = self._db.execute(f"SELECT outcome FROM outcome WHERE {where}", key).fetchone()
                new += row is None
                known = None if row is None else from_json(Outcome, json.loads(row[0]))
                o = self._measured(told) if known is None else filled(known, self._measured(told))
                if o != known:
                    values = (*key, o.array_job_id or o.job_id, readable(o.state), _text(o))
                    self._db.execute("INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return new

    def add_energy(self, records: Iterable[EnergyRecord]) -> int:
        """Store what nodes measured, each record once, joined to the runs that are known. How many were new."""
        new = 0
        with self.transaction():
            for record in records:
                key = (self._cluster, record.job_id, record.start_time, record.node)
                values = (*key, _text(record))
                done = self._db.execute("INSERT OR IGNORE INTO energy VALUES (?, ?, ?, ?, ?)", values)
                new += done.rowcount
                if done.rowcount:
                    self._join(record)
        return new

    def energies(self, runs: Iterable[tuple[int, int, int]]) -> list[float | None]:
        """What meters measured of runs (job id, submit time, start time), in kWh; None where that isn't all of it."""
        query = f"SELECT outcome FROM outcome WHERE {THE_JOB} AND start_time = ?"
        rows = (self._db.execute(query, (self._cluster, *run)).fetchone() for run in runs)
        outcomes = (None if row is None else from_json(Outcome, json.loads(row[0])) for row in rows)
        return [o.energy_kwh if o is not None and is_measured(o) else None for o in outcomes]

    def _join(self, record: EnergyRecord) -> None:
        span = (record.start_time - SLACK_S, record.start_time + SLACK_S)
        rows = self._db.execute(
            "SELECT submit_time, start_time, outcome FROM outcome "
            "WHERE cluster = ? AND job_id = ? AND start_time BETWEEN ? AND ?",
            (self._cluster, record.job_id, *span),
        ).fetchall()
        for submit_time, start_time, text in rows:
            measured = self._measured(from_json(Outcome, json.loads(text)))
            key = (self._cluster, record.job_id, submit_time, start_time)
            values = (_text(measured), *key)
            self._db.execute(f"UPDATE outcome SET outcome = ? WHERE {THE_JOB} AND start_time = ?", values)

    def _measured(self, outcome: Outcome) -> Outcome:
        """The outcome with its energy, where it has none yet and all of its nodes have reported."""
        if outcome.energy_kwh is not None:
            return outcome
        span = (outcome.start_time - SLACK_S, outcome.start_time + SLACK_S)
        rows = self._db.execute(
            "SELECT record FROM energy WHERE cluster = ? AND job_id = ? AND start_time BETWEEN ? AND ?",
            (self._cluster, outcome.job_id, *span),
        )
        measured = join(outcome, [from_json(EnergyRecord, json.loads(row[0])) for row in rows])
        return measured if measured.is_possible else outcome

    def labels(self) -> list[Label]:
        """Completed runs on GPUs whose submission is known, oldest first. Energy of shared GPUs is nobody's own."""
        return self._labels(f"{_LABELS} ORDER BY outcome.start_time, outcome.job_id", (self._cluster,))

    def label_count(self, ended_after: float = 0) -> int:
        """How many :meth:`labels` there are that ended after that time (Unix seconds), without reading them."""
        query = f"SELECT count(*) FROM ({_LABELS} WHERE outcome.outcome ->> 'end_time' > ?)"
        with self.reading():
            return int(self._db.execute(query, (self._cluster, ended_after)).fetchone()[0])

    def origin(self, submission: int, key: str) -> Origin | None:
        """That of a submission with ``key`` as its work; None where the submission has expired."""
        query = "SELECT uid, script_sha256, name FROM submission WHERE id = ?"
        row = self._db.execute(query, (submission,)).fetchone()
        return None if row is None else Origin(row[0], key, row[1], row[2])

    def origins(self, outcomes: Iterable[Outcome]) -> set[Origin]:
        """Those of the completed ``outcomes`` whose submissions are known."""
        query = (
            "SELECT submission.uid, key, script_sha256, submission.name FROM job "
            "JOIN submission ON submission.id = job.submission "
            "WHERE cluster = ? AND job_id = ? AND job.submit_time = ?"
        )
        completed = (o for o in outcomes if o.state == "COMPLETED")
        keys = {(self._cluster, o.array_job_id or o.job_id, o.submit_time) for o in completed}
        return {Origin(*row) for key in keys for row in self._db.execute(query, key)}

    def past(self, origin: Origin, limit: int = MOST_KIN) -> list[Label]:
        """The latest of :meth:`labels` that are the same user's, and of the same work, script or job name."""
        kin = {"key": origin.key, "script_sha256": origin.script_sha256, "name": origin.name}
        known = {column: value for column, value in kin.items() if value}
        same = " UNION ".join(f"SELECT id FROM submission WHERE uid = ? AND {column} = ?" for column in known)
        values = [value for column in known for value in (origin.uid, known[column])]
        query = f"{_LABELS} WHERE submission.id IN ({same}) ORDER BY outcome.start_time DESC LIMIT ?"
        return self._labels(query, (self._cluster, *values, limit))

    def _labels(self, query: str, values: Sequence[object]) -> list[Label]:
        found = []
        read: dict[str, Reading] = {}  # most work is submitted many times
        with self.reading():
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(_AT_A_TIME):
                ends = json.loads(f"[{','.join(row[-1] for row in rows)}]")  # one text is decoded faster than many
                for (uid, name, sha256, key, text_key, facts, _), end in zip(rows, ends, strict=True):
                    reading = read.get(facts) or read.setdefault(facts, from_json(Reading, json.loads(facts)))
                    outcome = from_json(Outcome, end)
                    if reading.gpus is not None and reading.gpus.shared:
                        outcome = replace(outcome, energy_kwh=None)
                    if outcome.gpus > 0:
                        found.append(Label(key, text_key, reading, outcome, Origin(uid, key, sha256, name)))
        return found

    def scripts(self) -> dict[str, str]:
        """The scripts that were kept (``daemon.keep_scripts``), by their sha256."""
        rows = self._db.execute("SELECT DISTINCT script_sha256, script FROM submission WHERE script IS NOT NULL")
        return {sha256: script.decode("utf-8", "replace") for sha256, script in rows}

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


def _text(value: Any) -> str:
    """``value`` as SQLite reads JSON: it knows no NaN, and one in a row fails whoever reads them all. Raises
    ValueError."""
    return json.dumps(to_json(value), allow_nan=False)
