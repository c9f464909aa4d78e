"""What an import of past jobs leaves in the store: their submissions, and the texts that are still to be encoded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmcast.model import Outcome
from slurmcast.store.database import THE_JOB, Database
from slurmcast.store.records import NewSubmission, readable


@dataclass(frozen=True, slots=True)
class PastRun:
    """One finished run, and the identity of what was submitted, None where its script isn't known."""

    outcome: Outcome
    uid: int
    name: str
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A text that is to be encoded."""

    id: int
    text_key: str
    text: str
    tries: int


class Past(Database):
    """A connection of its own, for a thread of its own. Raises :class:`slurmcast.store.database.StoreError`."""

    def __init__(self, path: Path, cluster: str) -> None:
        super().__init__(path, cluster)
        self._db.execute("PRAGMA secure_delete=ON")  # texts that have been encoded leave no trace in the file

    def keep(self, runs: Iterable[PastRun], read: Mapping[str, NewSubmission], wanted: Collection[str]) -> list[str]:
        """Store the jobs of ``runs`` with their submissions, all or nothing; what is there already stays.

        ``read``: submissions by identity, with their texts; those that are stored already are renewed by them. Texts
        that are ``wanted`` (by text key) are queued for the encoder. Answers the identities that neither the store nor
        ``read`` knows.
        """
        unknown = []
        with self.transaction():
            numbers = {identity: number for identity in read if (number := self._known(identity)) is not None}
            for identity, number in numbers.items():
                self._renew(number, read[identity])
            for run in runs:
                if self._see(run) or run.identity is None:
                    continue
                number = numbers.get(run.identity) or self._known(run.identity)
                if number is None and run.identity in read:
                    number = numbers[run.identity] = self._add(run.identity, read[run.identity])
                if number is None:
                    unknown.append(run.identity)
                else:
                    values = (number, *self._key(run.outcome))
                    self._db.execute(f"UPDATE job SET submission = ?, certain = 1 WHERE {THE_JOB}", values)
            texts = [(read[identity].text_key, read[identity].reading.text) for identity in numbers]
            self._db.executemany(
                "INSERT OR IGNORE INTO unencoded (text_key, text) VALUES (?, ?)", [t for t in texts if t[0] in wanted]
            )
        return unknown

    def _see(self, run: PastRun) -> bool:
        """Remember the job; whether its submission is known."""
        key, user = self._key(run.outcome), readable(run.outcome.user)
        found = self._db.execute(f"SELECT submission FROM job WHERE {THE_JOB}", key).fetchone()
        if found is None:
            values = (*key, run.uid, user, readable(run.name))
            self._db.execute(
                "INSERT INTO job (cluster, job_id, submit_time, uid, user, name) VALUES (?, ?, ?, ?, ?, ?)", values
            )
        return found is not None and found[0] is not None

    def _known(self, identity: str) -> int | None:
        row = self._db.execute("SELECT submission FROM imported WHERE identity = ?", (identity,)).fetchone()
        return None if row is None else int(row[0])

    def _add(self, identity: str, new: NewSubmission) -> int:
        number = self._insert("submission", new.row() | {"model": ""})
        self._db.execute("INSERT INTO imported VALUES (?, ?)", (identity, number))
        return number

    def _renew(self, submission: int, new: NewSubmission) -> None:
        """Put what this version reads, for this encoder, into the place of what an earlier import read."""
        row = {name: value for name, value in new.row().items() if name in ("key", "reading", "text_key", "named")}
        columns = ", ".join(f"{name} = ?" for name in row)
        self._db.execute(f"UPDATE submission SET {columns} WHERE id = ?", (*row.values(), submission))

    def _key(self, outcome: Outcome) -> tuple[str, int, int]:
        return self._cluster, outcome.array_job_id or outcome.job_id, outcome.submit_time

    def waiting(self) -> Waiting | None:
        """The text that is to be encoded next."""
        row = self._db.execute("SELECT id, text_key, text, tries FROM unencoded ORDER BY tries, id LIMIT 1").fetchone()
        return None if row is None else Waiting(*row)

    def encoded(self, text: Waiting) -> None:
        """Forget the text: its vector is kept, or never will be."""
        with self.transaction():
            self._db.execute("DELETE FROM unencoded WHERE id = ?", (text.id,))

    def refused(self, text: Waiting) -> None:
        """Queue the text behind those that haven't been tried as often."""
        with self.transaction():
            self._db.execute("UPDATE unencoded SET tries = tries + 1 WHERE id = ?", (text.id,))
