"""Figures of estimates against what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.drift.figures import interval
from slurmcast.evaluation.cases import Case
from slurmcast.model import Estimate, Interval
from slurmcast.probe.figures import pairs

Array = NDArray[np.float64]
MARGIN = 0.1
"""Two GPU types count as different where the better takes this much less at least."""
LEVELS = (0.1, 0.5, 0.9)


def figures(cases: Sequence[Case], estimates: Sequence[Estimate], target: str) -> dict[str, Any]:
    """Figures of one target; errors and shares are fractions, what can't be told is None.

    ``jobs`` were measured, for the share ``unknown`` of them nothing was said; ``median_ape`` and ``p90_ape`` of the
    medians' absolute percentage errors and ``spearman`` are over the others. ``coverage80`` is the share of truths
    inside the 80 % intervals, ``width`` the intervals' median p90 / p10, both None for estimates without any.
    ``better``: the share of ``pairs`` (one key, as many GPUs, two types, more than 10 % apart) whose better type was
    named right, equal estimates counting half; ``always`` naming the more often better one would reach that share.
    """
    truth = np.array([case.truth(target) for case in cases])
    found = [interval(estimate, target) for estimate in estimates]
    low, middle, high = (
        np.array([np.nan if i is None else math.log(getattr(i, name)) for i in found]) for name in ("p10", "p50", "p90")
    )
    measured = np.isfinite(truth)
    told = measured & np.isfinite(middle)
    ranged = told & (high > low)
    ape = np.abs(np.expm1(np.clip(middle - truth, None, 50.0)))[told]
    inside = ((low <= truth) & (truth <= high))[ranged]
    return {
        "jobs": int(measured.sum()),
        "unknown": _share(1 - told[measured]),
        "median_ape": float(np.median(ape)) if len(ape) else None,
        "p90_ape": float(np.quantile(ape, 0.9)) if len(ape) else None,
        "spearman": spearman(truth[told], middle[told]),
        "coverage80": _share(inside),
        "width": float(np.median(np.exp((high - low)[ranged]))) if ranged.any() else None,
        **_choices(cases, truth, middle),
    }


def spearman(a: Array, b: Array) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None for fewer than 3 values or all the same."""
    if len(a) < 3:
        return None
    x, y = _ranks(a), _ranks(b)
    spread = x.std() * y.std()
    return float(np.mean((x - x.mean()) * (y - y.mean())) / spread) if spread > 0 else None


def loss(truth: float, estimate: Interval) -> float:
    """Mean pinball loss of the three quantiles in logarithms: a proper score for middle and interval together (Gneiting
    and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation", section 6)."""
    quantiles = (estimate.p10, estimate.p50, estimate.p90)
    gaps = [truth - math.log(quantile) for quantile in quantiles]
    return sum(max(level * gap, (level - 1) * gap) for level, gap in zip(LEVELS, gaps, strict=True)) / len(LEVELS)


def _ranks(values: Array) -> Array:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def _choices(cases: Sequence[Case], truth: Array, middle: Array) -> dict[str, Any]:
    works = [(case.key, case.gpus) for case in cases]
    every = list(pairs(works, [case.type for case in cases], truth, middle, MARGIN).values())
    count = sum(len(values) for values in every)
    right = sum(float(((np.sign(v[:, 0]) * np.sign(v[:, 1]) + 1) / 2).sum()) for v in every)
    always = sum(max(int((v[:, 0] > 0).sum()), int((v[:, 0] <= 0).sum())) for v in every)
    return {
        "pairs": count,
        "better": right / count if count else None,
        "always": always / count if count else None,
    }


def _share(values: Array | NDArray[np.bool_]) -> float | None:
    return float(np.mean(values)) if len(values) else None
