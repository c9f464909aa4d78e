"""How well times and energies are predicted, on measured runs, against every rival.

``python benchmarks/predict.py [--data NAME,..] [--split NAME,..] [--model NAME,..] [--seeds N]``. Ours and the quick
rivals run over five seeds; the paper's networks over one, for they take minutes a fold. The split ``shift`` is ours
alone: what its intervals do before and after new programs come. A line per result, with the figures of
:mod:`predict.figures`; the last line is JSON with all of them. Fractions, not percent.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from predict.data import LOADERS, DataMissing, Run
from predict.figures import figures, spread
from predict.models import RIVALS, TARGETS, Array, Case, Rival, truths
from predict.splits import SPLITS, folds, shift

from slurmcast.config import EncoderConfig
from slurmcast.encoder import EncoderError, load

SEEDS = 5
SLOW = ("paper",)
HEADS = ("spearman", "median_ape", "p90_ape", "r2_log", "coverage80", "best_partition", "always_one")


def cases(runs: Sequence[Run]) -> list[Case]:
    """The runs with the vectors of their texts. Raises EncoderError."""
    texts = list(dict.fromkeys(run.reading.text for run in runs))
    vectors = dict(zip(texts, load(EncoderConfig()).encode(texts), strict=True))
    return [Case(run, vectors[run.reading.text]) for run in runs]


def results(table: Sequence[Case], data: str, split: str, model: str, seeds: int) -> list[dict[str, Any]]:
    """Figures of one model on one split of one table: one entry for each target that was measured."""
    begun = time.monotonic()
    truth = truths(table)
    found = [once(table, split, RIVALS[model], seed) for seed in range(seeds)]
    seconds = round((time.monotonic() - begun) / seeds, 2)
    runs = [case.run for case in table]
    entries = []
    for column, target in enumerate(TARGETS):
        if np.isfinite(truth[:, column]).any():
            of_seeds = [
                figures(runs, truth[:, column], *(part[:, column] for part in guess if part is not None))
                for guess in found
            ]
            entry = {
                "data": named(data, target),
                "split": split,
                "model": model,
                **dict.fromkeys(HEADS),
                **spread(of_seeds),
            }
            entries.append(entry | {"seconds": seconds})
    return entries


def once(table: Sequence[Case], split: str, rival: Rival, seed: int) -> list[Array | None]:
    """Middle, low and high of every run (n, 2), each guessed by a model that hasn't seen it."""
    whole: list[Array | None] = [np.full((len(table), 2), np.nan) for _ in range(3)]
    for out in folds([case.run for case in table], split, seed):
        known = [case for case, left_out in zip(table, out, strict=True) if not left_out]
        asked = [case for case, left_out in zip(table, out, strict=True) if left_out]
        found = rival(known, asked, seed)
        for number, part in enumerate((found.middle, found.low, found.high)):
            if part is None:
                whole[number] = None
            else:
                whole[number][out] = part
    return whole


def named(data: str, target: str) -> str:
    """What results of a table are called: only the one of Zeus has more than times."""
    return f"{data}_{target}" if data == "zeus" else data


def shifted(table: Sequence[Case], data: str, seeds: int) -> list[dict[str, Any]]:
    """Figures of ours for new settings of known programs, and for those of programs that it has never seen."""
    found: dict[str, list[dict[str, Any]]] = {"shift_before": [], "shift_after": []}
    for seed in range(seeds):
        masks = shift([case.run for case in table], seed)
        known, *asked = ([case for case, chosen in zip(table, mask, strict=True) if chosen] for mask in masks)
        for name, part in zip(found, asked, strict=True):
            guess = RIVALS["ours"](known, part, seed)
            columns = (truths(part), guess.middle, guess.low, guess.high)
            runs = [case.run for case in part]
            found[name].append(figures(runs, *(values[:, 0] for values in columns if values is not None)))
    return [
        {"data": named(data, "time"), "split": name, "model": "ours", **dict.fromkeys(HEADS), **spread(of_seeds)}
        for name, of_seeds in found.items()
    ]


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=",".join(LOADERS))
    parser.add_argument("--split", default=",".join((*SPLITS, "shift")))
    parser.add_argument("--model", default=",".join(RIVALS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    skipped = {}
    for data in asked.data.split(","):
        try:
            table = cases(LOADERS[data]())
        except (DataMissing, EncoderError) as error:
            skipped[data] = str(error)
            continue
        for split, model in itertools.product(asked.split.split(","), asked.model.split(",")):
            if split == "shift":
                entries = shifted(table, data, asked.seeds) if model == "ours" else []
            else:
                entries = results(table, data, split, model, 1 if model in SLOW else asked.seeds)
            for entry in entries:
                print(json.dumps(entry), flush=True)
            found += entries
    return {"results": found, "skipped": skipped}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
