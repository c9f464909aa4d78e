"""From a job to what the probes compute with: unit vectors, logarithms of numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.examples import Sample
from slurmcast.probe.fair_share import allotted
from slurmcast.script.numbers import DEFAULT, OWN

Array = NDArray[np.float64]

MAX_NUMBERS = 24
"""Numbers that are used; where scripts name more, those that most examples have."""
MAX_OWN = 256
"""The same for numbers under names of programs' own, those that one owner varied most."""
PER_PASS = ("epochs", "samples", "steps_per_epoch", "thousand_images", "hours", "new_tokens")
PER_STEP = ("steps",)
REPEATS = ("trials", "folds")
"""Numbers that say how much work is asked for. Time is taken to be proportional to those of ``REPEATS``, and either to
those of ``PER_PASS`` or (where a job names steps but no epochs) to those of ``PER_STEP``."""
AMOUNTS = (*PER_PASS, *PER_STEP, *REPEATS)
SIZES = ("hidden_size", "image_size", "layers", "sequence_length")
BATCH = "batch_size"
MEASURES = (*AMOUNTS, *SIZES, BATCH)
"""What says something else within a script than between scripts (:mod:`slurmcast.probe.amounts`)."""
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
    own: tuple[str, ...] = ()
    """Numbers under names of programs' own: they are no columns here, only quantities. Those that no sample
    varied are among them: the job that does is granted what it would be among the samples."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names) + len(self.sometimes)

    @property
    def measures(self) -> tuple[str, ...]:
        """The amounts of work and the sizes among the names."""
        return tuple(name for name in self.names if name in MEASURES)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The measures, then the names of programs' own: what has a level."""
        return (*self.measures, *self.own)

    def to_settings(self) -> dict[str, Any]:
        """JSON-ready; :meth:`from_settings` reads it."""
        return {
            "names": list(self.names),
            "means": list(self.means),
            "sometimes": list(self.sometimes),
            "own": list(self.own),
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Numbers:
        """What :meth:`to_settings` wrote."""
        return cls(
            tuple(settings["names"]), tuple(settings["means"]), tuple(settings["sometimes"]), tuple(settings["own"])
        )

    def row(self, numbers: Mapping[str, float], gpus: int) -> Array:
        """Columns of one job, of shape (width,)."""
        logs = _logs(numbers, gpus)
        values = [logs.get(name, mean) - mean for name, mean in zip(self.names, self.means, strict=True)]
        return np.array(values + [0.5 if name in logs else -0.5 for name in self.sometimes])

    def levels(self, numbers: Mapping[str, float]) -> Array:
        """Logarithms of one job's quantities, of shape (q,); NaN where it doesn't name one."""
        return np.array([_log(numbers.get(name)) for name in self.quantities])

    def usual(self, numbers: Mapping[str, float]) -> Array:
        """The same, with what the job's sources would set in place of what the submission asks for."""
        return np.array([_log(numbers.get(f"{DEFAULT}{name}", numbers.get(name))) for name in self.quantities])


def choose_numbers(samples: Sequence[Sample]) -> Numbers:
    """The columns for ``samples``."""
    logs = [_logs(sample.numbers, sample.gpus) for sample in samples]
    counts = Counter(name for entry in logs for name in entry)
    names = tuple(sorted(counts, key=lambda name: (-counts[name], name))[:MAX_NUMBERS])
    means = tuple(float(np.mean([entry[name] for entry in logs if name in entry])) for name in names)
    sometimes = tuple(name for name in names if counts[name] < len(samples))
    values: dict[tuple[int | None, str], set[float]] = defaultdict(set)
    for sample in samples:
        for name, value in sample.numbers.items():
            if name.startswith(OWN) and value > 0:
                values[sample.owner, name].add(value)
    most_varied = sorted(values, key=lambda of: (-len(values[of]), of[1]))
    own = allotted(most_varied, MAX_OWN)
    return Numbers(names, means, sometimes, tuple(own))


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
    """Of the numbers whose names all programs share."""
    logs = {name: _log(value) for name, value in numbers.items() if not name.startswith((OWN, DEFAULT))}
    known = {name: value for name, value in logs.items() if math.isfinite(value)} | {"gpus": math.log(gpus)}
    return {name: value for name, value in known.items() if name not in NO_WORK}


def _log(value: float | None) -> float:
    return math.log(value) if value is not None and math.isfinite(value) and value > 0 else math.nan
