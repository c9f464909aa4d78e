"""How long the store takes for the labels that a training begins with; ``make bench-labels``. The last line is JSON.

Each work has been submitted some times. The ratio is to what reading the rows takes alone: fetched by a plain join, and
the JSON of each reading and each outcome parsed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from options import parser, whole

from slurmcast.codec import to_json
from slurmcast.model import GpuRequest, Outcome, Reading, Submission
from slurmcast.store.records import NewSubmission
from slurmcast.store.store import Store

ROUNDS = 5
SUBMITTED = 1_700_000_000
NUMBERS = {"epochs": 30.0, "batch_size": 64.0, "nodes": 1.0, "tasks": 1.0, "gpus": 1.0, "time_limit_s": 3600.0}
READING = Reading("", "", {**NUMBERS, "--seed": 1.0, "default epochs": 3.0}, GpuRequest(per_node=1), 1, ("a100",), 3600)


def fill(path: Path, count: int, repeats: int) -> None:
    """``count`` completed runs, each work ``repeats`` times."""
    store = Store(path, "c")
    with store.transaction():
        for n in range(count):
            script, at = b"script %d" % (n // repeats), SUBMITTED + n
            reading = replace(READING, key=f"key {n // repeats}", sources=(f"/home/user/work{n // repeats}/train.py",))
            submission = Submission(1000 + n % 30, "user", f"job{n % 100}", at, script, len(script))
            row = NewSubmission(submission, reading, f"text {n // repeats}").row() | {"id": n + 1}
            marks = ", ".join("?" * len(row))
            store._db.execute(f"INSERT INTO submission ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
            store._db.execute(
                "INSERT INTO job (cluster, job_id, submit_time, uid, user, name, submission) "
                "VALUES ('c', ?, ?, ?, 'user', ?, ?)",
                (n + 1, at, submission.uid, submission.name, n + 1),
            )
            end = Outcome(n + 1, at, "a100", "a100", 1, "COMPLETED", at, at + 100, 100.0, 1.5, user="user", nodes=1)
            values = ("c", n + 1, at, at, n + 1, "COMPLETED", json.dumps(to_json(end)))
            store._db.execute("INSERT INTO outcome VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    store.close()


def least(store: Store) -> float:
    """CPU seconds for the rows and their JSON."""
    began = time.process_time()
    query = (
        "SELECT reading, outcome FROM submission JOIN job ON job.submission = submission.id JOIN outcome ON "
        "outcome.cluster = job.cluster AND submitted_id = job.job_id AND outcome.submit_time = job.submit_time"
    )
    for reading, outcome in store._db.execute(query):
        json.loads(reading), json.loads(outcome)
    return time.process_time() - began


def labels(store: Store, count: int) -> float:
    began = time.process_time()
    assert len(store.labels()) == count
    return time.process_time() - began


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--labels", type=whole(1), default=50_000, help="finished runs; default: 50000")
    options.add_argument("--repeats", type=whole(1), default=5, help="runs of each work; default: 5")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        fill(path, asked.labels, asked.repeats)
        store = Store(path, "c")
        pairs = [(labels(store, asked.labels), least(store)) for _ in range(ROUNDS)]
        store.close()
    labels_s, least_s = (statistics.median(kind) for kind in zip(*pairs, strict=True))
    answer = {
        "labels": asked.labels,
        "works": -(-asked.labels // asked.repeats),
        "labels_s": round(labels_s, 3),
        "us_per_label": round(1e6 * labels_s / asked.labels, 1),
        "rows_and_json_s": round(least_s, 3),
        "ratio": round(statistics.median(one / other for one, other in pairs), 2),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
