"""From a job to what the probes compute with: unit vectors, logarithms of numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.examples import Sample

Array = NDArray[np.float64]

MAX_NUMBERS = 24
"""Numbers that are used; where scripts name more, those that most examples have."""
NO_WORK = frozenset({"time_limit_s"})
"""Numbers that say nothing about the work itself. A user's time limit is a habit: it changes without the job changing,
and if estimates followed it, asking for less time would buy a better place."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a job as columns: logarithms around their mean, and whether each is there.

    A number that is absent (or not positive) lies at the mean, with its second column telling it apart; ``gpus`` is
    always a_ij itself.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    """Mean logarithm of each, over the samples that have it."""
    sometimes: tuple[str, ...]
    """Those that some samples lack: each has a second column, 1/2 where it is there and -1/2 where not."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names) + len(self.sometimes)

    def to_settings(self) -> dict[str, Any]:
        """JSON-ready; :meth:`from_settings` reads it."""
        return {"names": list(self.names), "means": list(self.means), "sometimes": list(self.sometimes)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Numbers:
        """What :meth:`to_settings` wrote."""
        return cls(tuple(settings["names"]), tuple(settings["means"]), tuple(settings["sometimes"]))

    def row(self, numbers: Mapping[str, float], gpus: int) -> Array:
        """Columns of one job, of shape (width,)."""
        logs = _logs(numbers, gpus)
        values = [logs.get(name, mean) - mean for name, mean in zip(self.names, self.means, strict=True)]
        return np.array(values + [0.5 if name in logs else -0.5 for name in self.sometimes])


def choose_numbers(samples: Sequence[Sample]) -> Numbers:
    """The columns for ``samples``."""
    logs = [_logs(sample.numbers, sample.gpus) for sample in samples]
    counts = Counter(name for entry in logs for name in entry)
    names = tuple(sorted(counts, key=lambda name: (-counts[name], name))[:MAX_NUMBERS])
    means = tuple(float(np.mean([entry[name] for entry in logs if name in entry])) for name in names)
    return Numbers(names, means, tuple(name for name in names if counts[name] < len(samples)))


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """``vectors`` of shape (n, d), each of length one (a zero vector stays zero)."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def squared_distances(a: NDArray[np.floating], b: NDArray[np.floating]) -> Array:
    """Squared Euclidean distances between the rows of ``a`` (n, d) and ``b`` (m, d), of shape (n, m)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    sums = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(sums - 2 * a @ b.T, 0.0))


def _logs(numbers: Mapping[str, float], gpus: int) -> dict[str, float]:
    known = {name: value for name, value in numbers.items() if math.isfinite(value) and value > 0}
    return {name: math.log(value) for name, value in {**known, "gpus": float(gpus)}.items() if name not in NO_WORK}
