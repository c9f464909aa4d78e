"""Everybody's request: what did my runs use, and are they learned from?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from slurmcast.config import Config
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.store.own_runs import OwnRun, OwnRuns

MAX_JOBS = 100
"""Jobs that one request may ask about."""


class RunsApi:
    """Reads the store by a connection of its own, so that nothing else waits for it."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def get(self, ask: Ask) -> Answer:
        """The caller's finished runs among ``jobs``; one that isn't his is left out as one that isn't known."""
        jobs = [int(job_id) for job_id in ask.query.get("jobs", "").split(",")]
        if len(jobs) > MAX_JOBS:
            raise Refused(413, f"jobs: at most {MAX_JOBS} at a time")
        found = await asyncio.to_thread(self._runs, ask.caller.uid, ask.caller.name, jobs)
        return {"runs": [_shown(run) for run in found]}

    def _runs(self, uid: int, user: str, jobs: Sequence[int]) -> list[OwnRun]:
        store = OwnRuns(self._config.paths.store, self._config.cluster)
        try:
            return store.runs(uid, user, jobs)
        finally:
            store.close()


def _shown(run: OwnRun) -> Answer:
    names = ("job_id", "submit_time", "start_time", "state", "partition", "gpus", "elapsed_s")
    facts = {name: getattr(run.outcome, name) for name in names}
    return {**facts, "energy_kwh": run.energy_kwh, "label": run.is_label}
