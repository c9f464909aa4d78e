"""What ``GET /metrics`` shows of the loop: Prometheus text, version 0.0.4, from the files in the folder of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slurmcast.drift.figures import Row
from slurmcast.drift.trainings import Training, trainings
from slurmcast.drift.watch import Look, last_look

Sample = tuple[Mapping[str, str], float | None]
"""Labels and value; a value that isn't known is left out."""


def metrics(folder: Path) -> str:
    """Blocks on files."""
    seen, done = last_look(folder), trainings(folder)
    return "".join([*(_seen(seen) if seen is not None else ()), *_done(done)])


def _seen(seen: Look) -> Iterable[str]:
    yield _metric("drift_checked_timestamp_seconds", "gauge", [({}, seen.at)])
    yield _metric("labels", "gauge", [({}, seen.labels)])
    yield _metric("labels_since_training", "gauge", [({}, seen.new_labels)])
    yield _metric("training_due", "gauge", [({}, float(seen.due.now))])
    yield _metric("drift", "gauge", [({}, float(bool(seen.alarms)))])
    for name, rows in (("recent", seen.recent), ("tested", seen.tested)):
        yield _metric(f"{name}_jobs", "gauge", [(_of(row), row.jobs) for row in rows])
        yield _metric(f"{name}_coverage", "gauge", [(_of(row), row.coverage) for row in rows])
        yield _metric(f"{name}_median_ape", "gauge", [(_of(row), row.median_ape) for row in rows])
        yield _metric(f"{name}_unknown", "gauge", [(_of(row), row.unknown) for row in rows])


def _done(done: Sequence[Training]) -> Iterable[str]:
    results = Counter(training.result for training in done)
    yield _metric("trainings_total", "counter", [({"result": name}, count) for name, count in sorted(results.items())])
    if done:
        last = done[-1]
        yield _metric("last_training_timestamp_seconds", "gauge", [({"result": last.result}, last.ended or last.began)])
    promoted = [training.ended for training in done if training.promoted]
    yield _metric("last_promotion_timestamp_seconds", "gauge", [({}, promoted[-1])] if promoted else [])


def _of(row: Row) -> dict[str, str]:
    return {"target": row.target, "partition": row.partition}


def _metric(name: str, kind: str, samples: Sequence[Sample]) -> str:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return ""
    lines = [f"# TYPE slurmcast_{name} {kind}\n"]
    for labels, value in known:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"slurmcast_{name}{{{pairs}}} {value}\n" if pairs else f"slurmcast_{name} {value}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
