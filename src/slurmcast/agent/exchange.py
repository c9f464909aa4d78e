"""What the daemon is asked of pending jobs in each cycle: it is told of those that are new or have changed, and answers
with what is news to us. So a long queue that stays as it is costs next to nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurmcast.client import FORGOTTEN, Client, ClientError
from slurmcast.codec import to_json
from slurmcast.model import Job

Key = tuple[int, int]
"""Job id and submit time."""
Entries = Mapping[Key, dict[str, Any]]
"""What the daemon said last of each job."""


class Exchange:
    """Remembers what both sides know of each other since their last look."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.anew = True
        """Whether the last look told of all jobs: the daemon may be a new one, with another store."""
        self._forget()

    def _forget(self) -> None:
        self._look: str | None = None
        self._told: dict[Key, Job] = {}
        self._entries: dict[Key, dict[str, Any]] = {}

    def ask(self, pending: Sequence[Job], running: Sequence[Job], default: Sequence[str]) -> tuple[Entries, Any]:
        """What is known of the pending jobs, and the daemon's whole answer. Raises ClientError."""
        try:
            answer = self._request(pending, running, default)
        except ClientError as error:
            if error.status != FORGOTTEN:
                raise
            self._forget()  # it was restarted, or answered another agent, or its last answer was lost
            answer = self._request(pending, running, default)
        self.anew = self._look is None
        self._look = answer["look"]
        self._told = {_key(job): job for job in pending}
        said = self._entries | {(entry["job_id"], entry["submit_time"]): entry for entry in answer["jobs"]}
        self._entries = {key: said[key] for key in self._told if key in said}
        return self._entries, answer

    def _request(self, pending: Sequence[Job], running: Sequence[Job], default: Sequence[str]) -> Any:
        here = {_key(job) for job in pending}
        body = {
            "since": self._look,
            "jobs": [to_json(job) for job in pending if self._told.get(_key(job)) != job],
            "gone": [list(key) for key in self._told if key not in here],
            "running": [to_json(job) for job in running],
            "default": list(default),
        }
        return self._client.request("POST", "/v1/agent/jobs", body)


def _key(job: Job) -> Key:
    return job.job_id, job.submit_time
