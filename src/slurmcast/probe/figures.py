"""What training reports: errors, coverage and choices of predictions that were made without the jobs' own runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from slurmcast.probe.examples import Sample
from slurmcast.probe.features import Array
from slurmcast.probe.folds import FOLDS, folds
from slurmcast.probe.intervals import Guess, Predictions, calibrate, ends_for
from slurmcast.probe.scatter import factors
from slurmcast.probe.targets import truths

MOST = 50.0
"""Bound on differences of logarithms that are brought back: a job may name numbers of any size, and infinity is no
figure."""


def residuals(truth: Array, guess: Guess) -> Array:
    """(truth - middle) / spread, (n,)."""
    return np.asarray((truth - guess.middle) / guess.spread)


def figures(samples: Sequence[Sample], without_key: Predictions, programs: Sequence[int], seed: int) -> dict[str, Any]:
    """By GPU type and target: keys, ``median_ape`` and ``p90_ape`` (fractions), ``coverage80`` (by intervals
    calibrated on other keys) and their median ``width`` (p90 / p10), and ``mean_ape``, the median error of always
    naming the geometric mean. ``better``: by pair of types and target, how often the better one was named right."""
    measured = {target: truth for target, truth in truths(samples).items() if target in without_key}
    groups = sorted({sample.type for sample in samples})
    covered = {
        target: _coverage(samples, measured[target], guess, programs, seed) for target, guess in without_key.items()
    }
    table: dict[str, Any] = {}
    for gpu_type in groups:
        table[gpu_type] = {}
        for target, truth in measured.items():
            middle = without_key[target].middle
            index = np.array([s.type == gpu_type for s in samples]) & np.isfinite(truth) & np.isfinite(middle)
            if index.any():
                table[gpu_type][target] = _errors(truth[index], middle[index]) | {
                    "keys": len({s.key for s, chosen in zip(samples, index, strict=True) if chosen}),
                    "coverage80": _mean(covered[target][0][index]),
                    "width": _mean(covered[target][1][index], np.nanmedian),
                }
    choices = {target: better(samples, measured[target], guess.middle) for target, guess in without_key.items()}
    return {"types": table, "better": choices}


def of_new_scripts(samples: Sequence[Sample], without_cluster: Predictions) -> dict[str, Any]:
    """By target: errors, as in :func:`figures`, for jobs whose script and its like had never been seen."""
    found = {}
    measured = truths(samples)
    for target, guess in without_cluster.items():
        truth, middle = measured[target], guess.middle
        index = np.isfinite(truth) & np.isfinite(middle)
        if index.any():
            found[target] = _errors(truth[index], middle[index])
    return found


def better(samples: Sequence[Sample], truth: Array, middle: Array, margin: float = 0.0) -> dict[str, Any]:
    """By pair of GPU types, over keys that ran on both with as many GPUs: ``keys``, ``right`` (share where the type
    with less was predicted to take less), ``always`` (share that always naming one type would reach), and
    ``ratio_ape``, the median error of the predicted ratio. Pairs that differ by a factor below 1 + ``margin`` are
    passed over."""
    works = [(sample.key, sample.gpus) for sample in samples]
    found = pairs(works, [sample.type for sample in samples], truth, middle, margin)
    return {f"{a}/{b}": _choices(ratios) for (a, b), ratios in sorted(found.items())}


def pairs(
    works: Sequence[Hashable], types: Sequence[str], truth: Array, middle: Array, margin: float
) -> dict[tuple[str, str], Array]:
    """By pair of GPU types, for each work that ran on both: logarithms of the real and of the predicted ratio of the
    second to the first, of shape (n, 2). Repeats are averaged; NaN is passed over, and so are real ratios below
    1 + ``margin``."""
    by_work: dict[Hashable, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (work, gpu_type) in enumerate(zip(works, types, strict=True)):
        if np.isfinite(truth[i]) and np.isfinite(middle[i]):
            by_work[work][gpu_type].append(i)
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for by_type in by_work.values():
        for a, b in combinations(sorted(by_type), 2):
            real, predicted = (float(v[by_type[b]].mean() - v[by_type[a]].mean()) for v in (truth, middle))
            if abs(real) > np.log1p(margin):
                found[a, b].append((real, predicted))
    return {types: np.array(ratios) for types, ratios in found.items()}


def _choices(ratios: Array) -> dict[str, float]:
    real, predicted = ratios.T
    return {
        "keys": len(ratios),
        "right": float(np.mean((real > 0) == (predicted > 0))),
        "always": float(max(np.mean(real > 0), np.mean(real <= 0))),
        "ratio_ape": float(np.median(_apart(predicted, real))),
    }


def _errors(truth: Array, middle: Array) -> dict[str, float]:
    ape, flat = _apart(middle, truth), _apart(truth.mean(), truth)
    return {
        "median_ape": float(np.median(ape)),
        "p90_ape": float(np.quantile(ape, 0.9)),
        "mean_ape": float(np.median(flat)),
    }


def _apart(guess: Array, truth: Array) -> Array:
    """|exp(guess) / exp(truth) - 1|, the error as a fraction."""
    return np.asarray(np.abs(np.expm1(np.minimum(guess - truth, MOST))))


def _coverage(
    samples: Sequence[Sample], truth: Array, guess: Guess, programs: Sequence[int], seed: int
) -> tuple[Array, Array]:
    """Whether each truth lies in an interval that was calibrated on other keys (1 or 0), and the interval's width."""
    keys = [sample.key for sample in samples]
    fold = folds(keys, np.random.default_rng(seed))
    _, scatter = factors(residuals(truth, guess), programs, keys, np.ones(len(keys)))
    spread = guess.spread * scatter
    scaled = residuals(truth, Guess(guess.middle, spread))
    types, owners = [sample.type for sample in samples], [sample.owner for sample in samples]
    inside, width = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
    for number in range(FOLDS):
        calibration = calibrate(np.where(fold == number, np.nan, scaled), types, owners=owners)
        for i in np.flatnonzero((fold == number) & np.isfinite(scaled)):
            ends = ends_for(calibration, types[i])
            if ends is not None:
                inside[i] = float(ends.low <= scaled[i] <= ends.high)
                width[i] = np.exp(min((ends.high - ends.low) * spread[i], MOST))
    return inside, width


def _mean(values: Array, by: Any = np.nanmean) -> float | None:
    return float(by(values)) if np.isfinite(values).any() else None
