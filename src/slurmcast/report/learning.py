"""What was learned in a report's time: trainings, promotions, and whether estimates have drifted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurmcast.codec import to_json
from slurmcast.drift.trainings import Training
from slurmcast.drift.watch import Look

MOST_TRAININGS = 100


def learning(trainings: Sequence[Training], seen: Look | None, since: float, until: float) -> dict[str, Any] | None:
    """The ``trainings`` that began in that time, the newest ones, and what was ``seen`` of drift when somebody last
    looked; None where there is nothing of either."""
    within = [training for training in trainings if since <= training.began < until]
    if not within and seen is None:
        return None
    drift = None
    if seen is not None:
        alarms = [alarm.text for alarm in seen.alarms]
        drift = {"at": seen.at, "model": seen.model, "labels": seen.labels, "alarms": alarms, "due": to_json(seen.due)}
    rows = [to_json(training) | {"result": training.result} for training in within[-MOST_TRAININGS:]]
    return {"trainings": rows, "drift": drift}
