"""What is told of programs that aren't known, brought to what programs that were left out came to.

How far a program's text, and the amounts that a job asks for beyond its sources' defaults, tell how long it runs
differs from site to site: where everybody runs whatever takes an evening, hardly at all. So what was measured is
regressed on left-out predictions, by calibration intercept and slope (for probabilities: Cox, Two further applications
of a model for binary regression, Biometrika 1958). The order of jobs on a type stays as it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import Array

SLOPE_SPREAD = 0.5
"""Prior standard deviation of the slope around one: what is told is believed until left-out programs show otherwise."""
OFFSET_SPREAD = 1.0
"""The same of each type's offset around zero, in logarithms."""
MIN_SLOPE = 0.05
"""Of jobs of an unknown program, that which is told to run longer stays the one."""
NOISE = 0.01
"""No run tells another of the same work by less, in logarithms: where residuals are zero the prior still counts."""
ROUNDS = 5
"""Fits after each of which the residuals' variance, by which the prior counts, is taken anew."""


@dataclass(frozen=True)
class Recalibration:
    """A straight line through logarithms, with an offset for each GPU type."""

    centre: float
    slope: float
    offsets: tuple[float, ...]
    """By type."""

    def to_settings(self) -> dict[str, Any]:
        """JSON-ready; :meth:`from_settings` reads it."""
        return {"centre": self.centre, "slope": self.slope, "offsets": list(self.offsets)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], count: int) -> Recalibration:
        """What :meth:`to_settings` wrote, for ``count`` types. Raises ValueError where it can't have been."""
        found = cls(float(settings["centre"]), float(settings["slope"]), tuple(map(float, settings["offsets"])))
        if found.slope < MIN_SLOPE or len(found.offsets) != count:
            raise ValueError(f"no recalibration of {count} GPU types: {settings}")
        return found

    def apply(self, told: Array, types: NDArray[np.int64]) -> Array:
        """What jobs on ``types`` (n,) come to, of shape (n,), where this was ``told`` (n,)."""
        return np.asarray(self.centre + np.array(self.offsets)[types] + self.slope * (told - self.centre))


def learn(
    told: Array, measured: Array, types: NDArray[np.int64], weights: Array, count: int, clusters: NDArray[np.int64]
) -> Recalibration:
    """From what was ``told`` (n,) of jobs on ``types`` (n,) of ``count``, each without its cluster of scripts, and what
    was ``measured`` (n,). ``weights`` (n,): what each counts for, a whole one of ``clusters`` (n,) one at most.

    How the types' offsets differ is learned from programs that ran on several: that users run long programs on one and
    short ones on another says nothing of what the same program takes on both.
    """
    centre = float(np.average(told, weights=weights))
    columns = np.column_stack([np.ones(len(told)), _within(np.eye(count)[types], weights, clusters), told - centre])
    penalties = np.array([OFFSET_SPREAD**-2] * (1 + count) + [SLOPE_SPREAD**-2])
    rest = missed = measured - told
    for _ in range(ROUNDS):
        variance = max(float(np.average(rest**2, weights=weights)), NOISE**2)
        found = _solved(columns, missed, weights, variance * penalties)
        rest = missed - columns @ found
    slope = max(1 + float(found[-1]), MIN_SLOPE)
    rest = missed - (slope - 1) * columns[:, -1]
    level, *apart = _solved(columns[:, :-1], rest, weights, variance * penalties[:-1]).tolist()
    return Recalibration(centre, slope, tuple(level + offset for offset in apart))


def learn_without(
    told: Array,
    measured: Array,
    types: NDArray[np.int64],
    weights: Array,
    count: int,
    clusters: NDArray[np.int64],
) -> Array:
    """What each cluster's jobs come to, (n,), by a recalibration that was learned without that cluster."""
    found = np.empty(len(told))
    for label in np.unique(clusters):
        out = clusters == label
        others = learn(told[~out], measured[~out], types[~out], weights[~out], count, clusters[~out])
        found[out] = others.apply(told[out], types[out])
    return found


def _within(columns: Array, weights: Array, clusters: NDArray[np.int64]) -> Array:
    """``columns`` (n, k) less their mean over each one's cluster."""
    _, index = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(columns), columns.shape[1]))
    np.add.at(sums, index, columns * weights[:, None])
    return np.asarray(columns - sums[index] / np.bincount(index, weights)[index][:, None])


def _solved(columns: Array, wanted: Array, weights: Array, penalties: Array) -> Array:
    """The coefficients (k,) of ``columns`` (n, k) by weighted least squares, each with its penalty (ridge)."""
    weighted = columns * weights[:, None]
    return np.asarray(np.linalg.solve(columns.T @ weighted + np.diag(penalties), weighted.T @ wanted))
