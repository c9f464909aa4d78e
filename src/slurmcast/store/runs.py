"""Finished runs with all that is known of their jobs, for replays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurmcast.codec import from_json
from slurmcast.model import Decision, Estimate, May, Outcome, Reading
from slurmcast.store.database import OF_OUTCOME, Database

_RUNS = (
    "SELECT outcome, user, job.submission, decision, reading, named FROM outcome "
    f"{OF_OUTCOME} "
    "WHERE outcome.cluster = :cluster AND outcome.submit_time >= :since AND outcome.submit_time < :until "
    "ORDER BY outcome.submit_time, outcome.job_id, outcome.start_time"
)
_ESTIMATES = (
    "SELECT submission, estimate FROM estimate WHERE submission IN (SELECT submission FROM job "
    "WHERE cluster = :cluster AND submit_time >= :since AND submit_time < :until)"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run on GPUs, whatever its end."""

    outcome: Outcome
    user: str
    time_limit_s: int | None
    allowed: frozenset[str] | None
    """Partitions that the job could have run on beside its own, by the agent's last decision, else by what the user
    named; None where nothing says."""
    estimates: Mapping[str, Estimate]
    """The last ones, by partition."""


class Runs(Database):
    """The store, for who looks back. Raises :class:`slurmcast.store.database.StoreError`."""

    def submitted(self, since: float, until: float) -> list[Run]:
        """The runs of jobs that were submitted from ``since`` up to ``until`` (Unix seconds), by submission; without
        impossible ones."""
        values = {"cluster": self._cluster, "since": since, "until": until}
        with self.reading():
            estimates: dict[int, dict[str, Estimate]] = {}
            for submission, text in self._db.execute(_ESTIMATES, values):
                estimate = from_json(Estimate, json.loads(text))
                estimates.setdefault(submission, {})[estimate.partition] = estimate
            rows = [_run(row, estimates) for row in self._db.execute(_RUNS, values)]
        return [run for run in rows if run.outcome.gpus > 0 and run.outcome.is_possible]


def _run(row: tuple[Any, ...], estimates: Mapping[int, Mapping[str, Estimate]]) -> Run:
    text, user, submission, decision, facts, named = row
    reading = from_json(Reading, json.loads(facts)) if facts else None
    limit_s = None if reading is None else reading.time_limit_s
    outcome = from_json(Outcome, json.loads(text))
    return Run(outcome, user or "", limit_s, _allowed(decision, named), estimates.get(submission, {}))


def _allowed(decision: str | None, named: str | None) -> frozenset[str] | None:
    if decision:
        verdicts = from_json(Decision, json.loads(decision)).verdicts
        return frozenset(verdict.partition for verdict in verdicts if verdict.may is May.MOVE)
    return frozenset(json.loads(named)) if named and named != "[]" else None
