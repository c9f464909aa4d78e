"""Intervals that hold what they promise: conformal quantiles of left-out residuals.

A prediction in logarithms is a middle and a spread. The residuals of predictions that were made without the job's own
runs, each divided by its spread, say how many spreads the truth lies away; their 10 % and 90 % quantiles, with the
correction for finite samples, are the interval's ends (Lei et al. 2018, "Distribution-free predictive inference for
regression", section 5.2). That holds if new jobs are like the ones left out. So there are three classes: *seen* jobs,
which ran before, calibrated by leaving out one of their runs; *near* ones, whose script or its like was seen,
calibrated by leaving out keys that have another one near; and *far* ones, calibrated by leaving out whole clusters of
scripts (after the Mondrian predictors of Vovk, Gammerman, Shafer 2005). What is left out together is one observation.

Where too few works ran again, nothing tests *seen* jobs. On a type on which such a job ran *once* it has an interval as
wide as if it hadn't; on other types it is judged by its like, *near*: in spreads that know its size.

Predictions are worse on some GPU types than on others. So residuals are brought to one scale by their type's before
they are ranked together: two quantiles of each type's own residuals alone would take several times as many jobs.

Where one user's jobs are most of those left out, each counts for less (:mod:`slurmcast.probe.fair_share`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurmcast.probe.fair_share import Shares, shares
from slurmcast.probe.features import Array

TAIL = 0.1
"""Share of jobs that may lie beyond each end of an interval."""
LEAST = 15
"""Independent residuals that have to be left where some count for less: of fewer, the largest makes the interval."""
OWN = 20
"""Left-out residuals from which a GPU type has a scale of its own; below, that of all types together serves."""
POOLED = "*"


@dataclass(frozen=True)
class Tails:
    """Ends of an interval in spreads from the middle: ``low`` <= 0 <= ``high``."""

    low: float
    high: float


Ends = Mapping[str, Tails]
"""By GPU type, and under "*" for those that have no ends of their own."""


@dataclass(frozen=True)
class Guess:
    """Predictions of one target for n jobs, natural logarithms of shape (n,) each; NaN where there is none."""

    middle: Array
    spread: Array


Predictions = Mapping[str, Guess]
"""By target (:mod:`slurmcast.probe.targets`); one that can't be predicted isn't there."""


def upper(values: Array, weights: Array, count: float, tail: float = TAIL) -> float | None:
    """The smallest value that a new one exceeds with probability ``tail`` at most, None where the values are too few
    to tell. ``count`` of independent observations: the n of the finite-sample correction."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= (1 - tail) * (1 + 1 / count) * weights.sum() - 1e-9
    return float(values[order][np.argmax(reached)]) if reached.any() else None


def tails(residuals: Array, counted: Shares) -> Tails | None:
    """The ends for ``residuals`` (truth minus prediction, in spreads), each as far as it is ``counted``. None where
    there are fewer than 9 observations."""
    high, low = (upper(values, counted.weights, counted.count) for values in (residuals, -residuals))
    return None if high is None or low is None else Tails(min(-low, 0.0), max(high, 0.0))


def calibrate(
    residuals: Array,
    types: Sequence[str],
    groups: Sequence[Hashable] | None = None,
    owners: Sequence[Hashable] | None = None,
) -> Ends | None:
    """Ends by GPU type, and under :data:`POOLED` for all others; NaN residuals are passed over. None where even all
    together are too few. Residuals of one group count as one observation together; where no ``owners`` are given, all
    are one's."""
    index = np.flatnonzero(np.isfinite(residuals)).tolist()
    if not index:
        return None
    values, of_types = residuals[index], np.array(types)[index]
    named = [None if owners is None else owners[i] for i in index]
    counted = shares([i if groups is None else groups[i] for i in index], named, LEAST)
    scales = {POOLED: _scale(values, counted.owners)}
    for name in sorted(set(types)):
        if (there := of_types == name).sum() >= OWN:
            scales[name] = _scale(values[there], counted.owners[there])
    ends = tails(values / np.array([scales.get(name, scales[POOLED]) for name in of_types]), counted)
    if ends is None:
        return None
    return {name: Tails(ends.low * scale, ends.high * scale) for name, scale in scales.items()}


def _scale(residuals: Array, weights: Array) -> float:
    """The size that all but the largest fifth stay within: half the width of an interval around the middle."""
    sizes = np.abs(residuals)
    order = np.argsort(sizes)
    ranks = np.cumsum(weights[order]) - weights[order] / 2  # of equal weights: those between which quantiles lie
    within = np.interp((1 - 2 * TAIL) * (ranks[-1] - ranks[0]) + ranks[0], ranks, sizes[order])
    return max(float(within), 1e-9)


def ends_for(calibration: Ends | None, gpu_type: str) -> Tails | None:
    """The ends that hold for ``gpu_type``."""
    return None if calibration is None else calibration.get(gpu_type, calibration[POOLED])
