"""Errors, ranks, coverage and choices of guesses that were made for runs left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from predict.data import Run
from predict.models import Array
from predict.validation import HeldOut, Indexes
from slurmcast.probe.figures import pairs as ratios

MARGIN = 0.1
"""Two partitions count as different where the better takes this much less at least."""
SPREAD = ("median_ape", "spearman", "spearman_within", "coverage80", "best_partition")


def figures(runs: Sequence[Run], truth: Array, held: HeldOut) -> dict[str, Any]:
    """All figures of one target's guesses of left-out runs; ``truth`` (n,) in logarithms, NaN where there is none.

    Errors and ranks: see :func:`errors`; ``spearman_within`` is the mean over programs, each within a GPU type.
    ``coverage80`` and ``width`` (high / low, the median) are of the ``told`` runs, those with an interval; ``unknown``
    is the share without. ``best_partition``: how often the better of two partitions was named right, over ``pairs``
    that differ by more than :data:`MARGIN`, each as the model of one fold compares them (:class:`HeldOut`);
    ``always_one``: the same for always naming one.
    """
    there = np.isfinite(truth) & held.asked
    guessed = there & np.isfinite(held.middle)
    if not guessed.any():
        return {"runs": int(there.sum()), "guessed": 0}
    t, m = truth[guessed], held.middle[guessed]
    groups = [(run.program, run.gpu_type) for run, chosen in zip(runs, guessed, strict=True) if chosen]
    return {
        "runs": int(there.sum()),
        "guessed": int(guessed.sum()),
        **errors(t, m),
        "spearman_within": within(groups, t, m),
        **({} if held.low is None or held.high is None else intervals(truth[there], held.low[there], held.high[there])),
        **choices(runs, truth, held.pairs, held.both),
    }


def errors(truth: Array, guess: Array) -> dict[str, float | None]:
    """Of logarithms (n,): absolute percentage errors as fractions, and R2 and rank correlation over all together."""
    ape = np.abs(np.expm1(np.clip(guess - truth, None, 20.0)))
    return {
        "median_ape": float(np.median(ape)),
        "p90_ape": float(np.quantile(ape, 0.9)),
        "r2_log": float(1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()),
        "spearman": _spearman(truth, guess),
    }


def within(groups: Sequence[Hashable], truth: Array, guess: Array) -> float | None:
    """The mean of the groups' rank correlations, over groups of three and more."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, group in enumerate(groups):
        members[group].append(index)
    found = [value for i in members.values() if (value := _spearman(truth[i], guess[i])) is not None]
    return float(np.mean(found)) if found else None


def intervals(truth: Array, low: Array, high: Array) -> dict[str, float | None]:
    """See :func:`figures`."""
    told = np.isfinite(low)
    held = (low <= truth) & (truth <= high)
    return {
        "coverage80": float(held[told].mean()) if told.any() else None,
        "width": float(np.median(np.exp(high - low)[told])) if told.any() else None,
        "told": int(told.sum()),
        "unknown": float(1 - told.mean()),
    }


def choices(runs: Sequence[Run], truth: Array, pairs: Indexes, both: Array) -> dict[str, Any]:
    """:func:`better` over ``pairs`` (m, 2) of runs with the guesses ``both`` (m, 2)."""
    index = pairs.ravel()
    works = np.repeat(np.arange(len(pairs)), 2).tolist()
    return better(works, [runs[i].gpu_type for i in index], truth[index], both.ravel())


def better(works: Sequence[Hashable], types: Sequence[str], truth: Array, guess: Array) -> dict[str, Any]:
    """Over all pairs of GPU types on which a work ran: how often the better was named. Arguments (n,)."""
    every = list(ratios(works, types, truth, guess, MARGIN).values())
    if not every:
        return {"pairs": 0, "best_partition": None, "always_one": None}
    count = sum(len(values) for values in every)
    right = sum(((v[:, 0] > 0) == (v[:, 1] > 0)).sum() for v in every)
    always = sum(max((v[:, 0] > 0).sum(), (v[:, 0] <= 0).sum()) for v in every)
    return {"pairs": count, "best_partition": float(right / count), "always_one": float(always / count)}


def spread(of_seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The means of figures over seeds, and the standard deviations of some under ``sd``. Coverage is that of the runs
    of all seeds together."""
    table: dict[str, Any] = {}
    for name in dict.fromkeys(name for entry in of_seeds for name in entry):
        there = [entry for entry in of_seeds if entry.get(name) is not None]
        weights = [entry["told"] for entry in there] if name == "coverage80" else None
        table[name] = round(float(np.average([entry[name] for entry in there], weights=weights)), 4) if there else None
    spreads = {
        name: round(float(np.std([entry[name] for entry in of_seeds])), 4)
        for name in SPREAD
        if len(of_seeds) > 1 and all(entry.get(name) is not None for entry in of_seeds)
    }
    return table | {"seeds": len(of_seeds), "sd": spreads}


def _spearman(truth: Array, middle: Array) -> float | None:
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(middle) == 0:
        return None
    return float(spearmanr(truth, middle).statistic)
