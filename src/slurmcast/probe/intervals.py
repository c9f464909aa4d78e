"""Intervals that hold what they promise: conformal quantiles of left-out residuals.

A prediction in logarithms is a middle and a spread. The residuals of predictions that were made without the job's own
runs, each divided by its spread, say how many spreads the truth lies away; their 10 % and 90 % quantiles, with the
correction for finite samples, are the interval's ends (Lei et al. 2018, "Distribution-free predictive inference for
regression", section 5.2). That holds if new jobs are like the ones left out. So there are two classes: *near* jobs,
whose script or its like was seen, calibrated by leaving out keys, and *far* ones, calibrated by leaving out whole
clusters of scripts (after the Mondrian predictors of Vovk, Gammerman, Shafer 2005).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurmcast.probe.features import Array

TAIL = 0.1
"""Share of jobs that may lie beyond each end of an interval."""
OWN = 30
"""Left-out residuals from which a GPU type has quantiles of its own; below, those of all types together serve."""
POOLED = "*"


@dataclass(frozen=True)
class Tails:
    """Ends of an interval in spreads from the middle: ``low`` <= 0 <= ``high``."""

    low: float
    high: float


Ends = Mapping[str, Tails]
"""By GPU type, and under "*" for those that have no ends of their own."""


@dataclass(frozen=True)
class Predictions:
    """Predictions for n jobs in natural logarithms; NaN where there is none."""

    log_time: Array
    time_spread: Array
    log_energy: Array
    energy_spread: Array


def upper(values: Array, weights: Array, tail: float = TAIL) -> float | None:
    """The smallest value that a new one exceeds with probability ``tail`` at most, None where the values are too few
    to tell. ``weights`` count the independent observations: their sum is the n of the finite-sample correction."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= (1 - tail) * (weights.sum() + 1) - 1e-9
    return float(values[order][np.argmax(reached)]) if reached.any() else None


def tails(residuals: Array, groups: Sequence[Hashable] | None = None) -> Tails | None:
    """The ends for ``residuals`` (truth minus prediction, in spreads). Residuals of one group count as one observation
    together. None where there are fewer than 9 observations, or (the usual case) none at all."""
    weights = np.ones(len(residuals))
    if groups is not None:
        sizes = Counter(groups)
        weights = np.array([1 / sizes[group] for group in groups])
    high, low = upper(residuals, weights), upper(-residuals, weights)
    return None if high is None or low is None else Tails(min(-low, 0.0), max(high, 0.0))


def calibrate(residuals: Array, types: Sequence[str], groups: Sequence[Hashable] | None = None) -> Ends | None:
    """Ends by GPU type, and under :data:`POOLED` for all others; NaN residuals are passed over. None where even all
    together are too few."""
    known = [i for i, value in enumerate(residuals) if np.isfinite(value)]
    found: dict[str, Tails] = {}
    for name in [POOLED, *sorted(set(types))]:
        index = [i for i in known if name in (POOLED, types[i])]
        if name != POOLED and len(index) < OWN:
            continue
        ends = tails(residuals[index], None if groups is None else [groups[i] for i in index])
        if ends is not None:
            found[name] = ends
    return found if POOLED in found else None


def wider(one: Ends | None, other: Ends | None) -> Ends | None:
    """Ends that lie outside of both, by GPU type; where there is only one of the two, that one."""
    if one is None or other is None:
        return one or other
    pairs = {name: (one.get(name, one[POOLED]), other.get(name, other[POOLED])) for name in {**one, **other}}
    return {name: Tails(min(a.low, b.low), max(a.high, b.high)) for name, (a, b) in pairs.items()}


def ends_for(calibration: Ends | None, gpu_type: str) -> Tails | None:
    """The ends that hold for ``gpu_type``."""
    return None if calibration is None else calibration.get(gpu_type, calibration[POOLED])
