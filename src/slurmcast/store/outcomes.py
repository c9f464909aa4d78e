"""Finished runs in the store: how they ended, what was measured of them, and what can be learned from them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from slurmcast.codec import from_json, to_json
from slurmcast.meter.record import SLACK_S, EnergyRecord, filled, is_measured, join
from slurmcast.model import Outcome, Reading
from slurmcast.store.database import THE_JOB
from slurmcast.store.promises import Promises
from slurmcast.store.records import MOST_KIN, Label, Origin, readable

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


class Outcomes(Promises):
    """The finished runs of one cluster. Raises :class:`slurmcast.store.database.StoreError`."""

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


def _text(value: Any) -> str:
    """``value`` as SQLite reads JSON: it knows no NaN, and one in a row fails whoever reads them all. Raises
    ValueError."""
    return json.dumps(to_json(value), allow_nan=False)
