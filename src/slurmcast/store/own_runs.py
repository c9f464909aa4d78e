"""A user's own finished runs, by job id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmcast.codec import from_json
from slurmcast.model import Outcome
from slurmcast.store.database import OF_OUTCOME, Database

_RUNS = (
    "SELECT outcome, job.submission IS NOT NULL, job.uid, json_extract(reading, '$.gpus.shared') FROM outcome "
    f"{OF_OUTCOME} "
    "WHERE outcome.cluster = ? AND outcome.job_id IN ({}) ORDER BY outcome.job_id, outcome.start_time"
)


@dataclass(frozen=True, slots=True)
class OwnRun:
    """One run. ``is_label``: whether it is learned from, being complete and of a script that is known."""

    outcome: Outcome
    energy_kwh: float | None
    """None also where its GPUs were shared, for that energy is nobody's own."""
    is_label: bool


class OwnRuns(Database):
    """The store, only for reading. Raises :class:`slurmcast.store.database.StoreError`."""

    def __init__(self, path: Path, cluster: str) -> None:
        super().__init__(path, cluster, read_only=True)

    def runs(self, uid: int, user: str, jobs: Sequence[int]) -> list[OwnRun]:
        """Those runs of ``jobs`` that are of the user: jobs are known by ``uid``, runs without a known job by name."""
        query = _RUNS.format(", ".join("?" * len(jobs)))
        found = []
        with self.reading():
            for text, known, owner, shared in self._db.execute(query, (self._cluster, *jobs)):
                outcome = from_json(Outcome, json.loads(text))
                if owner == uid or (owner is None and outcome.user == user):
                    is_label = bool(known) and outcome.state == "COMPLETED" and outcome.gpus > 0
                    found.append(OwnRun(outcome, None if shared else outcome.energy_kwh, is_label))
        return found
