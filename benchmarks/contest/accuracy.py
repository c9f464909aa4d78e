"""How well times and energies are predicted from a contestant's vectors, on runs that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from predict.data import Run
from predict.figures import figures, spread
from predict.models import TARGETS, Array, Case, Guesses, Rival, knn5, ours, truths
from predict.splits import folds
from predict.validation import Guess, Indexes, cross_validate
from sklearn.linear_model import RidgeCV

from contest.base import Contestant, Encode

SHOWN = ("median_ape", "spearman", "best_partition", "always_one", "unknown", "coverage80", "seeds", "sd")


def without_numbers(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:
    """The default probe, from the vectors alone."""

    def bare(cases: Sequence[Case]) -> list[Case]:
        return [replace(c, run=replace(c.run, reading=replace(c.run.reading, numbers={}))) for c in cases]

    return ours(bare(known), bare(asked), seed)


def ridge(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:  # noqa: ARG001
    """A linear function of the vectors, and a constant for each GPU type."""
    types = sorted({case.run.gpu_type for case in known})

    def table(cases: Sequence[Case]) -> Array:
        types_of = [[float(case.run.gpu_type == name) for name in types] for case in cases]
        return np.hstack([np.stack([case.vector for case in cases]), np.array(types_of)])

    truth, middle = truths(known), np.full((len(asked), 2), np.nan)
    for column in range(2):
        there = np.isfinite(truth[:, column])
        if there.any():
            model = RidgeCV(np.logspace(-4, 2, 13)).fit(table(known)[there], truth[there, column])
            middle[:, column] = model.predict(table(asked))
    return Guesses(middle)


MODELS: Mapping[str, Rival] = {"probe": ours, "probe_no_numbers": without_numbers, "knn5": knn5, "ridge": ridge}


def results(contestant: Contestant, runs: Sequence[Run], split: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Figures of each model and target. What is fitted on texts is fitted on the known ones."""
    texts = list(dict.fromkeys(run.reading.text for run in runs))
    encode = None if contestant.fitted else remembering(contestant.make(texts), texts)
    truth = truths([Case(run, np.empty(0, np.float32)) for run in runs])
    for model, rival in MODELS.items():
        found = [
            cross_validate(runs, folds(runs, split, seed), _guess(contestant, encode, runs, rival, seed))
            for seed in range(seeds)
        ]
        for column, target in enumerate(TARGETS):
            if np.isfinite(truth[:, column]).any():
                entry = spread([figures(runs, truth[:, column], held.of(column)) for held in found])
                yield {"split": split, "model": model, "target": target} | {n: entry[n] for n in SHOWN if n in entry}


def remembering(encode: Encode, texts: Sequence[str]) -> Encode:
    """``encode`` for any of ``texts``, each encoded once."""
    vectors = dict(zip(texts, encode(texts), strict=True))
    return lambda asked: np.stack([vectors[text] for text in asked])


def _guess(contestant: Contestant, encode: Encode | None, runs: Sequence[Run], rival: Rival, seed: int) -> Guess:
    """The rival's guesses from the contestant's vectors."""

    def guess(known: Indexes, asked: Indexes) -> Guesses:
        texts = list(dict.fromkeys(runs[i].reading.text for i in known))
        vectors = (encode or contestant.make(texts))([run.reading.text for run in runs])
        cases = [Case(run, vector) for run, vector in zip(runs, vectors, strict=True)]
        return rival([cases[i] for i in known], [cases[i] for i in asked], seed)

    return guess
