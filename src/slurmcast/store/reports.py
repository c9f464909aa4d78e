"""Finished runs with their estimates, streamed for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurmcast.store.columns import Runs, from_rows
from slurmcast.store.database import OF_OUTCOME, Database

CHUNK = 1024
"""Runs at a time: below 1 MB, and a few ms of work."""
CHECK_EVERY = 50_000
"""Steps of SQLite's machine, about 10 ms, after which it is asked whether to go on."""

_O = "json_extract(outcome.outcome, '$.{}')".format
_E = "json_extract(promise.estimate, '$.{}')".format
_USER = f"coalesce(nullif({_O('user')}, ''), job.user)"
"""Earlier versions stored no user with an outcome."""
_TIME = ", ".join(_E(f"time_s.{q}") for q in ("p10", "p50", "p90"))
_ENERGY = ", ".join(_E(f"energy_kwh.{q}") for q in ("p10", "p50", "p90"))
_CHANGE = (
    "FROM change WHERE change.job_id = outcome.submitted_id AND change.submit_time = outcome.submit_time "
    "AND change.cluster = outcome.cluster"
)
_CHOICES = "(SELECT count(*) FROM json_each(change.decision, '$.verdicts') WHERE json_extract(value, '$.may') = 'move')"
_RUNS = (
    f"SELECT {_USER}, {_O('account')}, {_O('partition')}, outcome.state, {_E('source')}, outcome.submit_time, "
    f"outcome.start_time, {_O('end_time')}, {_O('elapsed_s')}, {_O('gpus')}, "
    # What several jobs share, the meter can't tell apart.
    f"CASE WHEN json_extract(reading, '$.gpus.shared') THEN NULL ELSE {_O('energy_kwh')} END, "
    f"json_extract(reading, '$.time_limit_s'), (SELECT count(*) {_CHANGE}), "
    f"EXISTS (SELECT 1 {_CHANGE} AND {_CHOICES} > 1), {_TIME}, {_ENERGY} FROM outcome "
    f"{OF_OUTCOME} "
    # Not the table of estimates: those are made anew while a job, or a task of its array, waits.
    "LEFT JOIN promise ON promise.cluster = outcome.cluster AND promise.job_id = outcome.job_id "
    "AND promise.submit_time = outcome.submit_time AND promise.start_time = outcome.start_time "
    f"WHERE outcome.cluster = :cluster AND outcome.start_time < :until AND {_O('end_time')} >= :since "
    f"AND {_O('end_time')} < :until AND {_O('gpus')} > 0"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which runs: those that ended from ``since`` up to ``until`` (Unix seconds), of ``user`` and ``account`` where
    these are given."""

    since: float
    until: float
    user: str | None = None
    account: str | None = None
    uid: int | None = None
    """Of the only user whose runs may be seen; jobs are known by it, runs that no job is known of by ``user``."""


class Reports(Database):
    """The store, only for reading, by one thread. Raises :class:`slurmcast.store.database.StoreError`."""

    def __init__(self, path: Path, cluster: str) -> None:
        super().__init__(path, cluster, read_only=True)
        self._db.text_factory = lambda text: text.decode("utf-8", "replace")  # half a character must not stop it

    def stop_when(self, ended: Callable[[], bool]) -> None:
        """Let a query that is under way fail as soon as ``ended`` says so."""
        self._db.set_progress_handler(ended, CHECK_EVERY)

    def runs(self, scope: Scope) -> Iterator[Runs]:
        """The runs, some thousands at a time, in no order that means anything."""
        query, values = _RUNS, {"cluster": self._cluster, "since": scope.since, "until": scope.until}
        if scope.uid is not None:
            query += f" AND CASE WHEN job.uid IS NULL THEN {_USER} = :user ELSE job.uid = :uid END"
        elif scope.user is not None:
            query += f" AND {_USER} = :user"
        if scope.account is not None:
            query += f" AND {_O('account')} = :account"
        with self.reading():
            rows = self._db.execute(query, {**values, "user": scope.user, "account": scope.account, "uid": scope.uid})
            while chunk := rows.fetchmany(CHUNK):
                yield from_rows(chunk)
