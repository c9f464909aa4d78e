"""How well times and energies are predicted, on measured runs, against every rival.

``python benchmarks/predict.py [--data NAME,..] [--split NAME,..] [--model NAME,..] [--seeds N]``. Ours and the quick
rivals run over five seeds; the paper's networks, which take minutes a fold, over one, and where others leave out one
program at a time they leave out one in ten. The split ``shift`` is ours alone: what its intervals do before and after
new programs come. First how far repeats of the same work differ (:mod:`predict.repeats`), then a line per result, with
the figures of :mod:`predict.figures`; the last line is JSON with all of them. Fractions, not percent.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from options import names, parser, whole
from predict.data import LOADERS, DataMissing, Run
from predict.figures import figures, spread
from predict.models import RIVALS, TARGETS, Case, truths
from predict.repeats import REPEATS
from predict.splits import SPLITS, folds, shift
from predict.validation import Guess, cross_validate

from slurmcast.config import EncoderConfig
from slurmcast.encoder import EncoderError, load

SEEDS = 5
SLOW = ("paper",)
HEADS = ("spearman", "spearman_within", "median_ape", "p90_ape", "r2_log", "coverage80", "best_partition", "always_one")


def cases(runs: Sequence[Run]) -> list[Case]:
    """The runs with the vectors of their texts. Raises EncoderError."""
    texts = list(dict.fromkeys(run.reading.text for run in runs))
    vectors = dict(zip(texts, load(EncoderConfig()).encode(texts), strict=True))
    return [Case(run, vectors[run.reading.text]) for run in runs]


def results(table: Sequence[Case], data: str, split: str, model: str, seeds: int) -> list[dict[str, Any]]:
    """Figures of one model on one split of one table: one entry for each target that was measured."""
    runs, truth = [case.run for case in table], truths(table)
    masks = [list(folds(runs, _split(split, model), seed)) for seed in range(seeds)]
    begun = time.monotonic()
    found = [cross_validate(runs, of_seed, guess(table, model, seed)) for seed, of_seed in enumerate(masks)]
    seconds = round((time.monotonic() - begun) / seeds, 2)
    entries = []
    for column, target in enumerate(TARGETS):
        if np.isfinite(truth[:, column]).any():
            of_seeds = [figures(runs, truth[:, column], held.of(column)) for held in found]
            entries.append(entry(data, target, split, model, of_seeds) | {"folds": len(masks[0]), "seconds": seconds})
    return entries


def _split(split: str, model: str) -> str:
    return "programs" if split == "program" and model in SLOW else split


def guess(table: Sequence[Case], model: str, seed: int) -> Guess:
    """The model's guesses by indexes of the table."""
    return lambda known, asked: RIVALS[model]([table[i] for i in known], [table[i] for i in asked], seed)


def entry(data: str, target: str, split: str, model: str, of_seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A result; only the table of Zeus has more than times, so only its results name the target."""
    named = f"{data}_{target}" if data == "zeus" else data
    return {"data": named, "split": split, "model": model, **dict.fromkeys(HEADS), **spread(of_seeds)}


def shifted(table: Sequence[Case], data: str, seeds: int) -> list[dict[str, Any]]:
    """Figures of ours for new settings of known programs, and for those of programs that it has never seen."""
    found: dict[str, list[dict[str, Any]]] = {"shift_before": [], "shift_after": []}
    for seed in range(seeds):
        known, *asked = shift([case.run for case in table], seed)
        for name, out in zip(found, asked, strict=True):
            part = [case for case, chosen in zip(table, known | out, strict=True) if chosen]
            runs = [case.run for case in part]
            held = cross_validate(runs, [out[known | out]], guess(part, "ours", seed))
            found[name].append(figures(runs, truths(part)[:, 0], held.of(0)))
    return [entry(data, "time", name, "ours", of_seeds) for name, of_seeds in found.items()]


def noise() -> tuple[list[dict[str, Any]], dict[str, str]]:
    """How far repeats of the same work differ, and which couldn't be read."""
    found, skipped = [], {}
    for data, read in REPEATS.items():
        try:
            found += [{"data": data} | _rounded(of_runs) for of_runs in read()]
        except DataMissing as error:
            skipped[f"repeats of {data}"] = str(error)
    return found, skipped


def _rounded(figures_of_runs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures_of_runs.items()}


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Run what is asked for."""
    options = parser(__doc__)
    splits = (*SPLITS, "shift")
    options.add_argument("--data", type=names(LOADERS), default=list(LOADERS))
    options.add_argument("--split", type=names(splits), default=list(splits))
    options.add_argument("--model", type=names(RIVALS), default=list(RIVALS))
    options.add_argument("--seeds", type=whole(1), default=SEEDS)
    asked = options.parse_args(arguments)
    found: list[dict[str, Any]] = []
    repeats, skipped = noise()
    for line in repeats:
        print(json.dumps(line), flush=True)
    for data in asked.data:
        try:
            table = cases(LOADERS[data]())
        except (DataMissing, EncoderError) as error:
            skipped[data] = str(error)
            continue
        for split, model in itertools.product(asked.split, asked.model):
            if split == "shift":
                entries = shifted(table, data, asked.seeds) if model == "ours" else []
            else:
                entries = results(table, data, split, model, 1 if model in SLOW else asked.seeds)
            for line in entries:
                print(json.dumps(line), flush=True)
            found += entries
    return {"results": found, "repeats": repeats, "skipped": skipped}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
