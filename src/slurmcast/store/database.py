"""The SQLite file under the store: opened with its schema brought up to date, and written in whole transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slurmcast.files import write_ahead
from slurmcast.store.schema import MIGRATIONS

THE_JOB = "cluster = ? AND job_id = ? AND submit_time = ?"
"""In a WHERE: the job, or the runs of the job, of that key."""
OF_OUTCOME = (
    "LEFT JOIN job ON job.cluster = outcome.cluster AND job.job_id = outcome.submitted_id "
    "AND job.submit_time = outcome.submit_time LEFT JOIN submission ON submission.id = job.submission"
)
"""Behind ``FROM outcome``: the run's job and what was submitted, as far as they are known."""

BUSY_S = 10.0
"""How long to wait for another process (``slurmcast train``) that is using the file."""


class StoreError(Exception):
    """The store can't be used; the message says what to do."""


class Database:
    """One connection, for the jobs of ``cluster``, used by one thread at a time. Raises :class:`StoreError`, also on a
    full disk."""

    def __init__(self, path: Path, cluster: str, read_only: bool = False) -> None:
        self._path, self._cluster = path, cluster
        try:
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}; does the folder exist, and may this user write there?") from None
        try:
            write_ahead(self._db, BUSY_S)  # what a power cut loses of it, it loses of the spool (a tmpfs) as well
            self._db.execute("PRAGMA foreign_keys=ON")
            self._migrate(path)
            if read_only:
                self._db.execute("PRAGMA query_only=ON")
        except sqlite3.OperationalError as error:  # locked, read-only, full: nothing is wrong with the file itself
            self._db.close()
            raise StoreError(
                f"{path}: {error}; is the disk full, the file not this user's, or held by somebody?"
            ) from None
        except sqlite3.Error as error:
            self._db.close()
            raise StoreError(f"{path}: {error}; move the file away to start with an empty store") from None

    def _migrate(self, path: Path) -> None:
        if self._version() > len(MIGRATIONS):
            version = self._version()
            self._db.close()
            raise StoreError(f"{path} is of a newer slurmcast (schema {version}); install that version again")
        if self._version() < len(MIGRATIONS):
            with self.transaction():
                for migration in MIGRATIONS[self._version() :]:  # another process may have been here meanwhile
                    for statement in _statements(migration):
                        self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _insert(self, table: str, row: Mapping[str, Any]) -> int:
        """Insert a row, by its columns; its number."""
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        done = self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
        return int(done.lastrowid or 0)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let what can't be read come as :class:`StoreError`: damaged pages, and rows that hold something else."""
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"{self._path} can't be read: {error}; is the disk sound?") from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is written inside."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"the store can't be written: {error}; is the disk full?") from None


def _statements(script: str) -> Iterator[str]:
    """One by one, for a whole script would be a transaction of its own."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
