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
ONE_PROGRAM = 0.25
"""Distance up to which they pass as one program with other arguments: in the corpus settings of one program lie up to
0.22 apart, different programs 0.43 and more."""
MIN_CLUSTERS = 9
"""Clusters of scripts that must lie as far from all others as a job may, to have an interval: fewer prove nothing."""


@dataclass(frozen=True)
class Territory:
    """The scripts that are known. Distances are Euclidean between unit vectors: 0 to 2."""

    vectors: NDArray[np.float32]
    """Distinct unit vectors, of shape (n, d)."""
    programs: NDArray[np.int64]
    """Which program each is of, (n,): its cluster in :class:`Survey`."""
    near: float
    """Up to here a script counts as known: nineteen in twenty left-out keys were at most this far from all others. At
    most :data:`ONE_PROGRAM`: while many programs have run once, most keys are far from all others."""
    limit: float
    """Beyond, too little was tested and nothing is claimed: :data:`MIN_CLUSTERS` clusters were so far from others."""

    def nearest(self, vector: NDArray[np.floating]) -> tuple[float, int]:
        """Distance of a script's ``vector`` to the nearest known one, and the program of that."""
        (squared,) = squared_distances(unit(vector[None, :]), self.vectors)
        nearest = int(squared.argmin())
        return float(np.sqrt(squared[nearest])), int(self.programs[nearest])


@dataclass(frozen=True)
class Survey:
    """The territory, with what was found on the way."""

    territory: Territory
    clusters: tuple[int, ...]
    """Cluster of each example's script: those that pass as one program, directly or by others in between."""
    near: NDArray[np.bool_]
    """The examples, of shape (n,), by which estimates for known scripts are tested: another key is near."""
    far: NDArray[np.bool_]
    """The examples, of shape (n,), by which estimates for unknown scripts are tested: those of the lonelier half of
    each owner's clusters, and of :data:`MIN_CLUSTERS` at least. None is, where there are too few."""

    @property
    def far_tested(self) -> bool:
        """Whether jobs beyond ``near`` can have intervals."""
        return bool(self.far.any())


def survey(
    vectors: NDArray[np.float32],
    keys: Sequence[Hashable],
    may_leave_clusters_out: bool,
    owners: Sequence[Hashable] | None = None,
) -> Survey:
    """The territory of examples with unit ``vectors`` (n, d); those of one key are left out together. Where no
    ``owners`` are given, all are one's.

    Where clusters can't be left out or are too few, nothing is claimed beyond ``near``. Many clusters may be variants
    of one program, near to one another, and an unknown program is like none of them. So it is the lonely clusters that
    count, in what is tested and in how far that reaches. What is tested are lonely ones of each owner, so that one with
    many odd scripts doesn't take all places.
    """
    distances = np.sqrt(squared_distances(vectors, vectors))
    alone = _nearest_other(distances, keys)
    near = min(max(float(np.quantile(alone, 0.95)), SAME_SCRIPT), ONE_PROGRAM)
    clusters = _clusters(distances, ONE_PROGRAM)
    known, first = np.unique(vectors, axis=0, return_index=True)
    programs = np.array(clusters)[first]
    lonely: dict[int, float] = {}
    if may_leave_clusters_out and len(set(clusters)) >= MIN_CLUSTERS:
        for cluster, distance in zip(clusters, _nearest_other(distances, clusters), strict=True):
            lonely[cluster] = min(lonely.get(cluster, np.inf), float(distance))
    ranked = sorted(lonely, key=lambda cluster: -lonely[cluster])
    limit = lonely[ranked[MIN_CLUSTERS - 1]] if ranked else 0.0
    if limit <= near:
        return Survey(
            Territory(known, programs, near, near), clusters, alone <= near, np.zeros(len(clusters), np.bool_)
        )
    among_own = _ranks_among_own(ranked, clusters, [None] * len(clusters) if owners is None else owners)
    chosen = set(sorted(ranked, key=among_own.__getitem__)[: max(len(ranked) // 2, MIN_CLUSTERS)])
    far = np.array([cluster in chosen for cluster in clusters])
    return Survey(Territory(known, programs, near, limit), clusters, alone <= near, far)


def _ranks_among_own(ranked: Sequence[int], clusters: Sequence[int], owners: Sequence[Hashable]) -> dict[int, float]:
    """Where each of the ``ranked`` clusters stands among its owner's: a share of these, 1/2 for an only one. One
    that several have stands where it is best."""
    of: dict[Hashable, set[int]] = {}
    for cluster, owner in zip(clusters, owners, strict=True):
        of.setdefault(owner, set()).add(cluster)
    shares: dict[int, float] = {}
    for own in of.values():
        for place, cluster in enumerate(cluster for cluster in ranked if cluster in own):
            shares[cluster] = min(shares.get(cluster, 1.0), (place + 0.5) / len(own))
    return shares


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
