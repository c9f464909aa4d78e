"""What ``GET /metrics`` shows of the loop: Prometheus text, version 0.0.4, from the files in the folder of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from slurmcast.drift.figures import Row
from slurmcast.drift.trainings import Training, trainings
from slurmcast.drift.watch import Look, last_look
from slurmcast.prometheus import Sample, metric

_FIGURES = {
    "jobs": "How many they are",
    "coverage": "Share of real values within the 80 % interval",
    "median_ape": "Median of the errors, as shares of the real values",
    "unknown": "Share of jobs of which nothing learned says anything",
}


def metrics(folder: Path) -> str:
    """Blocks on files."""
    seen, done = last_look(folder), trainings(folder)
    return "".join([*(_seen(seen) if seen is not None else ()), *_done(done)])


def _seen(seen: Look) -> Iterable[str]:
    yield metric("drift_checked_timestamp_seconds", "gauge", "When estimates were last looked at.", [({}, seen.at)])
    yield metric("labels", "gauge", "Finished jobs that can be learned from.", [({}, seen.labels)])
    since = "Of these, how many have come since the model in use was trained."
    yield metric("labels_since_training", "gauge", since, [({}, seen.new_labels)])
    yield metric("training_due", "gauge", "Whether it was time to train.", [({}, float(seen.due.now))])
    yield metric("drift", "gauge", "Whether estimates don't hold what they promise.", [({}, float(bool(seen.alarms)))])
    for name, of, rows in (
        ("recent", "the last jobs, by the estimates that they started with", seen.recent),
        ("tested", "the jobs that the model in use was tested on", seen.tested),
    ):
        for figure, meaning in _FIGURES.items():
            samples: list[Sample] = [(_of(row), getattr(row, figure)) for row in rows]
            yield metric(f"{name}_{figure}", "gauge", f"{meaning}: {of}.", samples)


def _done(done: Sequence[Training]) -> Iterable[str]:
    results = Counter(training.result for training in done)
    samples: list[Sample] = [({"result": name}, count) for name, count in sorted(results.items())]
    yield metric("trainings_total", "counter", "Trainings by what came of them.", samples)
    last = {training.result: training.ended or training.began for training in done}
    samples = [({"result": name}, at) for name, at in sorted(last.items())]
    yield metric("last_training_timestamp_seconds", "gauge", "The latest training that came to this.", samples)
    promoted = [training.ended for training in done if training.promoted]
    newest: list[Sample] = [({}, promoted[-1])] if promoted else []
    yield metric("last_promotion_timestamp_seconds", "gauge", "When a new model was last put to use.", newest)


def _of(row: Row) -> dict[str, str]:
    return {"target": row.target, "partition": row.partition}
