"""How soon drift is found, and how rare false alarms are: the sequential test on simulated jobs. The last line is JSON.

``python benchmarks/drift.py [--runs N]``: each share of truths inside the 80 % intervals, how many observations pass
until the alarm of one of seven tests (two targets, two partitions) with the default ``train.false_alarm_jobs``.
"""

from __future__ import annotations

import json

import numpy as np
from options import parser, whole

from slurmcast.config import TrainConfig
from slurmcast.drift.cusum import cusum, threshold
from slurmcast.drift.figures import MISSED, RISE

TESTS = 7
COVERED = (0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.0)
LONGEST = 100_000
"""Observations of a run that has no alarm: at 80 % hardly one in ten thousand."""


def until_alarm(covered: float, rng: np.random.Generator) -> int:
    """How many independent observations pass until the alarm."""
    height = threshold(MISSED, MISSED + RISE, TrainConfig().false_alarm_jobs * TESTS)
    crossed = cusum((rng.random(LONGEST) >= covered).tolist(), MISSED, MISSED + RISE, height).crossed
    return LONGEST if crossed is None else crossed + 1


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=whole(2), default=200)
    asked = arguments.parse_args()
    found = []
    print("covered  observations until the alarm: mean, 90th percentile")
    for covered in COVERED:
        runs = [until_alarm(covered, np.random.default_rng(seed)) for seed in range(asked.runs)]
        row = {"covered": covered, "mean": round(float(np.mean(runs))), "p90": round(float(np.quantile(runs, 0.9)))}
        print(f"{covered:7.0%}{row['mean']:10}{row['p90']:10}", flush=True)
        found.append(row)
    print(json.dumps({"runs": asked.runs, "tests": TESTS, "until_alarm": found}))


if __name__ == "__main__":
    main()
