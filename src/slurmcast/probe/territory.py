"""How far a script is from those that a probe was trained on, and how far is too far."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import squared_distances, unit

SAME_SCRIPT = 0.1
"""Distance of unit vectors up to which two texts pass as versions of one script (an edited line moves one by 0.02 to
0.1)."""
MIN_CLUSTERS = 9
"""Clusters of scripts from which jobs beyond ``near`` can have intervals: fewer left-out ones prove nothing."""


@dataclass(frozen=True)
class Territory:
    """The scripts that are known. Distances are Euclidean between unit vectors: 0 to 2."""

    vectors: NDArray[np.float32]
    """Distinct unit vectors, of shape (n, d)."""
    near: float
    """Up to here a script counts as known: nineteen in twenty left-out keys were at most this far from all others."""
    limit: float
    """Beyond, nothing was tested and nothing is claimed."""

    def distance(self, vector: NDArray[np.floating]) -> float:
        """Distance of a script's ``vector`` to the nearest known one."""
        return float(np.sqrt(squared_distances(unit(vector[None, :]), self.vectors).min()))


@dataclass(frozen=True)
class Survey:
    """The territory, with what was found on the way."""

    territory: Territory
    clusters: tuple[int, ...]
    """Cluster of each example's script: versions of one script, and scripts as near to one another as these."""
    far_tested: bool
    """Whether there are enough clusters to test estimates for unknown scripts by leaving them out."""


def survey(vectors: NDArray[np.float32], keys: Sequence[Hashable], may_leave_clusters_out: bool) -> Survey:
    """The territory of examples with unit ``vectors`` (n, d); those of one key are left out together.

    Where clusters can't be left out or are too few, ``near`` reaches as far as any key was from all others, and so does
    ``limit``.
    """
    distances = np.sqrt(squared_distances(vectors, vectors))
    alone = _nearest_other(distances, keys)
    near = max(float(np.quantile(alone, 0.95)), SAME_SCRIPT)
    clusters = _clusters(distances, near)
    known = np.unique(vectors, axis=0)
    if not may_leave_clusters_out or len(set(clusters)) < MIN_CLUSTERS:
        near = max(float(alone.max()), SAME_SCRIPT)
        return Survey(Territory(known, near, near), clusters, False)
    return Survey(Territory(known, near, float(_nearest_other(distances, clusters).max())), clusters, True)


def _nearest_other(distances: NDArray[np.float64], groups: Sequence[Hashable]) -> NDArray[np.float64]:
    """Distance of each example to the nearest one of another group; there must be two groups at least."""
    index = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    label = np.array([index[group] for group in groups])
    return np.asarray(np.where(label[:, None] == label[None, :], np.inf, distances).min(axis=1))


def _clusters(distances: NDArray[np.float64], reach: float) -> tuple[int, ...]:
    """Number of each example's cluster: examples within ``reach`` of one another, directly or by others, are of one."""
    label = np.full(len(distances), -1)
    for start in range(len(distances)):
        if label[start] >= 0:
            continue
        edge = np.array([start])
        label[start] = start
        while len(edge):
            edge = np.flatnonzero((distances[edge].min(axis=0) <= reach) & (label < 0))
            label[edge] = start
    return tuple(int(number) for number in label)
