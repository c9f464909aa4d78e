"""The watch at the edge: looks at store and models, the last one kept in ``watch.json`` for all who show it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.config import Config
from slurmcast.drift.due import Due, due
from slurmcast.drift.figures import Alarm, Row, alarms, table
from slurmcast.drift.trainings import Training, trainings
from slurmcast.probe.model import Model
from slurmcast.store.store import Store

FILE = "watch.json"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen."""

    at: float
    """In Unix seconds."""
    model: str
    """The version in use; empty: none."""
    labels: int
    """Finished jobs that could be learned from, once their texts are encoded."""
    new_labels: int
    """How many of them the model in use hasn't learned from."""
    due: Due
    alarms: tuple[Alarm, ...]
    """What has drifted since the model in use was put to use."""
    recent: tuple[Row, ...]
    """How the last jobs' estimates came true, whatever model made them."""
    tested: tuple[Row, ...]
    """The same of the newest jobs when the model in use was tested, before it was put to use."""


def look(config: Config, store: Store, model: Model | None) -> Look:
    """Look now. ``model``: that in use. Raises StoreError."""
    labels, done = store.label_count(), trainings(config.paths.models)
    own = store.promises(model.version) if model is not None else []
    last = store.last_promises(config.train.window)
    tested = tested_rows(model.figures) if model is not None else ()
    unknown = next((row.unknown for row in tested if row.target == "time"), None)
    found = alarms(own, unknown, config.train.false_alarm_jobs)
    learned = _learned(model, done) if model is not None else None
    tried, lost = (done[-1].labels, model is None and done[-1].promoted) if done else (None, False)
    answer = due(config.train, labels, learned, tried, [alarm.text for alarm in found], lost)
    version = model.version if model is not None else ""
    new = max(labels - (learned or 0), 0)
    return Look(time.time(), version, labels, new, answer, tuple(found), table(last), tested)


def _learned(model: Model, done: Sequence[Training]) -> int:
    """What ``labels`` was when the model was trained."""
    own = (training.labels for training in done if training.model == model.version)
    return next(own, int(model.figures.get("examples", 0)))


def tested_rows(figures: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows that a training left in a model's ``figures``; none where it was put to use untested. The first of each
    target is of all partitions together (:data:`slurmcast.drift.figures.ALL`) where there are several."""
    try:
        return tuple(from_json(Row, row) for row in figures.get("tested", ()))
    except (CodecError, TypeError):  # of another release
        return ()


def keep(folder: Path, seen: Look) -> None:
    """Leave ``seen`` in the folder of models, in place of the former look."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{FILE}-{os.getpid()}"
    try:
        draft.write_text(json.dumps(to_json(seen), indent=1))
        draft.replace(folder / FILE)
    finally:
        draft.unlink(missing_ok=True)  # of a disk that was full


def last_look(folder: Path) -> Look | None:
    """What was seen last; None where nobody has looked yet, or what was left there can't be read."""
    try:
        seen = from_json(Look, json.loads((folder / FILE).read_text("utf-8")))
        datetime.fromtimestamp(seen.at)
    except (OSError, ValueError, OverflowError, RecursionError):
        return None
    return seen
