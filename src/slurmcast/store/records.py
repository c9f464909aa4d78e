"""What goes into the store and what comes out, as plain data, and how it lies in rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from slurmcast.codec import from_json, to_json
from slurmcast.model import Outcome, Reading, Submission


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """A submission as it comes in, read."""

    submission: Submission
    reading: Reading
    text_key: str
    """Where the encoder's cache has, or will have, the vector of the reading's text."""
    named: tuple[str, ...] = ()
    """The partitions that the user named."""
    spool_name: str | None = None
    keep_script: bool = False

    def row(self) -> dict[str, Any]:
        """Columns of the table ``submission`` and their values."""
        submission, reading = self.submission, to_json(self.reading)
        facts = {name: value for name, value in to_json(submission).items() if name != "script"}
        return {
            "spool_name": self.spool_name,
            "uid": submission.uid,
            "name": readable(submission.name),
            "submit_time": submission.submit_time,
            "submission": json.dumps(facts),
            "script_sha256": hashlib.sha256(submission.script).hexdigest(),
            "script_bytes": len(submission.script),
            "complete": int(submission.complete),
            "key": self.reading.key,
            "reading": json.dumps(reading | {"text": ""}),
            "text_key": self.text_key,
            "named": json.dumps(self.named),
            "script": submission.script if self.keep_script else None,
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose work a submission is, and which: by this its relatives among finished runs are found."""

    uid: int
    key: str
    script_sha256: str
    name: str
    """The job's name in readable form; empty where there is none."""

    @classmethod
    def of(cls, submission: Submission, reading: Reading) -> Origin:
        """That of a submission that has its script."""
        sha256 = hashlib.sha256(submission.script).hexdigest()
        return cls(submission.uid, reading.key, sha256, readable(submission.name))


STORED = "id, submission, script_sha256, script_bytes, complete, reading, text_key, named, model"
"""The columns that :func:`stored` takes."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A submission as the store has it: without its script, and ``reading`` without its text."""

    id: int
    submission: Submission
    script_sha256: str
    script_bytes: int
    complete: bool
    """False where the hook cut the script."""
    reading: Reading
    text_key: str
    named: tuple[str, ...]
    model: str | None
    """The model that estimated it, empty for the prior alone; None: the estimate is still to be made."""

    @property
    def origin(self) -> Origin:
        """Whose work it is, and which."""
        name = readable(self.submission.name)
        return Origin(self.submission.uid, self.reading.key, self.script_sha256, name)

    def is_of(self, script: bytes) -> bool:
        """Whether ``script``, as Slurm keeps it, is the one that was submitted, as far as the hook passed it on."""
        if self.complete and len(script) != self.script_bytes:
            return False
        return hashlib.sha256(script[: self.script_bytes]).hexdigest() == self.script_sha256

    def with_script(self, script: bytes) -> Submission:
        """The submission with its whole script."""
        return replace(self.submission, script=script, script_size=len(script))


def stored(row: Sequence[Any]) -> Stored:
    """A row of :data:`STORED`."""
    number, facts, sha256, size, complete, reading, text_key, named, model = row
    return Stored(
        id=number,
        submission=from_json(Submission, json.loads(facts) | {"script": b""}),
        script_sha256=sha256,
        script_bytes=size,
        complete=bool(complete),
        reading=from_json(Reading, json.loads(reading)),
        text_key=text_key,
        named=tuple(json.loads(named)),
        model=model,
    )


@dataclass(frozen=True, slots=True)
class Link:
    """The submission that a job was made of."""

    submission: int
    certain: bool
    """False where another submission of the same second may be the right one, which the script will tell."""


class Version(NamedTuple):
    """A submission that a job was made of, as it is at a time: equal ones tell the same."""

    submission: int
    certain: bool
    model: str | None
    estimated_at: float | None
    """In Unix seconds."""


@dataclass(frozen=True, slots=True)
class Known:
    """A job as the store remembers it."""

    job_id: int
    submit_time: int
    uid: int
    user: str
    name: str
    submission: int | None
    decision: dict[str, Any] | None
    """The last :class:`slurmcast.model.Decision`, as JSON."""


@dataclass(frozen=True, slots=True)
class KappaSetting:
    """Somebody's setting of kappa. Partition and QOS are empty where it holds for all."""

    partition: str
    qos: str
    value: float | None
    """In 1/(GPU s kWh); None: back to the configuration."""
    at: float
    by: str


@dataclass(frozen=True, slots=True)
class Label:
    """A finished run with what its submission was made of: material for training."""

    key: str
    text_key: str
    reading: Reading
    outcome: Outcome
    origin: Origin


MOST_KIN = 60
"""Runs from which a user's next one is told: the latest of those related to it."""


def readable(text: str) -> str:
    """``text`` as pyslurm and terminals show it: each byte that is no UTF-8 (a lone surrogate here) as U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte, from somebody's JSON
        return text.encode("utf-8", "replace").decode("utf-8")
