"""The pending jobs as the agent saw them last, and what it was told of each: only what is new crosses the socket.

Belongs to the store's thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from slurmcast.client import FORGOTTEN
from slurmcast.codec import to_json
from slurmcast.daemon.requests import Answer, Refused
from slurmcast.model import Job
from slurmcast.store.records import Version
from slurmcast.store.store import Store

Key = tuple[int, int]
"""Job id and submit time."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the agent is told of a submission, and what decides the rest."""

    version: Version
    complete: bool
    begin_time: int
    """The one that the hook set; 0: none."""
    entry: Answer


class Said(NamedTuple):
    """By what it is seen whether there is news of a job."""

    version: Version | None
    """Of its submission; None: that isn't known."""
    final: bool
    grace_until: int
    script_wanted: bool


@dataclass(slots=True)
class Waiting:
    """A pending job."""

    job: Job
    facts: Facts | None = None
    """None: its submission isn't known."""
    said: Said | None = None
    """None: the agent has been told nothing yet."""

    def news(self, *, final: bool, script_wanted: bool) -> Answer | None:
        """What the agent is to be told; None where it knows that."""
        facts = self.facts
        grace_until = facts.begin_time if facts is not None and facts.begin_time == self.job.begin_time else 0
        said = Said(None if facts is None else facts.version, final, grace_until, script_wanted)
        if said == self.said:
            return None
        self.said = said
        told = {"job_id": self.job.job_id, "submit_time": self.job.submit_time, "script_wanted": script_wanted}
        return told if facts is None else told | facts.entry | {"final": final, "grace_until": grace_until}


class WaitingJobs:
    """All of them."""

    def __init__(self) -> None:
        self._jobs: dict[Key, Waiting] = {}
        self._look: str | None = None

    def take(self, since: str | None, jobs: Iterable[Job], gone: Iterable[Key]) -> None:
        """What has changed since the look of that name: ``jobs`` are new or others than before; None: these are all.

        Raises :class:`Refused` where that look isn't the last one, or the last one went wrong.
        """
        if since is not None and since != self._look:
            raise Refused(FORGOTTEN, "slurmcastd doesn't know what it was told before: tell it of all pending jobs")
        self._look = None
        if since is None:
            self._jobs.clear()
        for key in gone:
            self._jobs.pop(key, None)
        for job in jobs:
            self._jobs.setdefault((job.job_id, job.submit_time), Waiting(job)).job = job

    def look_up(self, store: Store) -> None:
        """Read what the store knows by now of each, where that is news."""
        versions = store.versions(self.jobs)
        for (job_id, submit_time), waiting in self._jobs.items():
            array = waiting.job.array_job_id, submit_time
            version = versions.get((job_id, submit_time)) or versions.get(array)
            if version is None:
                waiting.facts = None
            elif waiting.facts is None or waiting.facts.version != version:
                waiting.facts = _facts(store, version)

    def done(self) -> str:
        """The name of the look that has now gone well."""
        self._look = secrets.token_hex(8)
        return self._look

    @property
    def seen(self) -> bool:
        """Whether the agent has looked since this daemon's start: before that nobody knows who waits."""
        return self._look is not None

    def __contains__(self, key: Key) -> bool:
        return key in self._jobs

    @property
    def all(self) -> Iterable[Waiting]:
        """Each with what is known of it."""
        return self._jobs.values()

    @property
    def jobs(self) -> list[Job]:
        """As the agent saw them last."""
        return [waiting.job for waiting in self._jobs.values()]

    @property
    def unknown(self) -> list[Job]:
        """Those whose submission isn't known."""
        return [waiting.job for waiting in self._jobs.values() if waiting.facts is None]


def _facts(store: Store, version: Version) -> Facts:
    stored = store.submission(version.submission)
    entry = {
        "estimates": to_json(store.estimates(stored.id)),
        "partition_named": bool(stored.named),
        "allowed_partitions": list(stored.named),
        "opted_in": stored.reading.opted_in,
        "opted_out": stored.reading.opted_out,
    }
    return Facts(version, stored.complete, stored.submission.begin_time, entry)
