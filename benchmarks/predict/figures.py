"""Errors, ranks, coverage and choices of guesses that were made for runs left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from predict.data import Run
from slurmcast.probe.figures import pairs

Array = NDArray[np.float64]
MARGIN = 0.1
"""Two partitions count as different where the better takes this much less at least."""


def figures(
    runs: Sequence[Run], truth: Array, middle: Array, low: Array | None = None, high: Array | None = None
) -> dict[str, Any]:
    """All figures of one target; arguments (n,) in logarithms, NaN where there is none. Errors are fractions.

    ``spearman``: over all runs; ``spearman_within``: the mean over programs, each within a GPU type. ``coverage80``
    and ``width`` (high / low, the median) are of the runs with an interval, ``unknown`` is the share without.
    ``best_partition``: how often the better of two partitions was named right, over pairs that differ by more than
    :data:`MARGIN`; ``always_one``: the same for always naming one.
    """
    there = np.isfinite(truth)
    guessed = there & np.isfinite(middle)
    if not guessed.any():
        return {"runs": int(there.sum()), "guessed": 0}
    t, m = truth[guessed], middle[guessed]
    ape = np.abs(np.expm1(np.clip(m - t, None, 20.0)))
    return {
        "runs": int(there.sum()),
        "guessed": int(guessed.sum()),
        "median_ape": float(np.median(ape)),
        "p90_ape": float(np.quantile(ape, 0.9)),
        "r2_log": float(1 - ((t - m) ** 2).sum() / ((t - t.mean()) ** 2).sum()),
        "spearman": _spearman(t, m),
        "spearman_within": _within([r for r, g in zip(runs, guessed, strict=True) if g], t, m),
        **({} if low is None or high is None else intervals(truth[there], low[there], high[there])),
        **choices(runs, truth, middle),
    }


def intervals(truth: Array, low: Array, high: Array) -> dict[str, float | None]:
    """See :func:`figures`."""
    told = np.isfinite(low)
    held = (low <= truth) & (truth <= high)
    return {
        "coverage80": float(held[told].mean()) if told.any() else None,
        "width": float(np.median(np.exp(high - low)[told])) if told.any() else None,
        "unknown": float(1 - told.mean()),
    }


def choices(runs: Sequence[Run], truth: Array, middle: Array) -> dict[str, Any]:
    """Over all pairs of GPU types on which a setting ran with as many GPUs: how often the better was named."""
    settings = [(run.reading.key, run.gpus) for run in runs]
    every = list(pairs(settings, [run.gpu_type for run in runs], truth, middle, MARGIN).values())
    if not every:
        return {"pairs": 0, "best_partition": None, "always_one": None}
    count = sum(len(values) for values in every)
    right = sum(((v[:, 0] > 0) == (v[:, 1] > 0)).sum() for v in every)
    always = sum(max((v[:, 0] > 0).sum(), (v[:, 0] <= 0).sum()) for v in every)
    return {"pairs": count, "best_partition": float(right / count), "always_one": float(always / count)}


def spread(of_seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The means of figures over seeds, and the standard deviations of some under ``sd``."""
    table: dict[str, Any] = {}
    for name in of_seeds[0]:
        values = [entry[name] for entry in of_seeds if entry.get(name) is not None]
        table[name] = round(float(np.mean(values)), 4) if values else None
    spreads = {
        name: round(float(np.std([entry[name] for entry in of_seeds])), 4)
        for name in ("median_ape", "spearman", "coverage80", "best_partition")
        if len(of_seeds) > 1 and all(entry.get(name) is not None for entry in of_seeds)
    }
    return table | {"seeds": len(of_seeds), "sd": spreads}


def _spearman(truth: Array, middle: Array) -> float | None:
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(middle) == 0:
        return None
    return float(spearmanr(truth, middle).statistic)


def _within(runs: Sequence[Run], truth: Array, middle: Array) -> float | None:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[run.program, run.gpu_type].append(index)
    found = [value for i in groups.values() if (value := _spearman(truth[i], middle[i])) is not None]
    return float(np.mean(found)) if found else None
