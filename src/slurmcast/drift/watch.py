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
from slurmcast.probe.choice import learned_until
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
    learned = _still_there(store, labels, *_learned(model, done)) if model is not None else None
    tried = _still_there(store, labels, done[-1].labels, done[-1].began) if done else None
    lost = model is None and bool(done) and done[-1].promoted
    answer = due(config.train, labels, learned, tried, [alarm.text for alarm in found], lost)
    version = model.version if model is not None else ""
    return Look(time.time(), version, labels, labels - (learned or 0), answer, tuple(found), table(last), tested)


def _learned(model: Model, done: Sequence[Training]) -> tuple[int, float]:
    """How many labels there were when the model was trained, and when that was."""
    own = ((training.labels, training.began) for training in done if training.model == model.version)
    return next(own, (int(model.figures.get("examples", 0)), learned_until(model)))


def _still_there(store: Store, labels: int, then: int, at: float) -> int:
    """How many of the ``labels`` were there at the time ``at``, when there were ``then``: fewer where the store has
    been begun anew since. What is imported later is new, whenever it ended."""
    return min(then, labels - store.label_count(ended_after=at))


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
