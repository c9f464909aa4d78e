"""Sums and quantiles of many runs by a label, in memory that grows with the labels and not with the runs. Pure.

Quantiles come from counts in bins whose edges grow by a constant factor, so that each is right within 1 % whatever the
numbers are (the idea of DDSketch: Masson, Rim, Lee, VLDB 2019).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from slurmcast.store.columns import Floats

ERROR = 0.01
"""The largest relative error of a quantile."""
LEAST, LARGEST = 1e-4, 1e12
"""Smaller numbers count as 0, larger ones as this."""
_GROWTH = math.log((1 + ERROR) / (1 - ERROR))
_BINS = math.ceil(math.log(LARGEST / LEAST) / _GROWTH) + 2
"""Bin 0 holds what counts as 0."""


def _bins(values: Floats) -> NDArray[np.int64]:
    clipped = np.clip(values, LEAST, LARGEST)
    return np.ceil(np.log(clipped / LEAST) / _GROWTH).astype(np.int64)


def _middle(place: int) -> float:
    return LEAST * math.exp(place * _GROWTH) * (1 - ERROR) if place else 0.0


Label = TypeVar("Label", bound=Hashable)


class Tally(Generic[Label]):
    """Sums and counted bins by label. Every call of :meth:`add` must bring the same measures."""

    def __init__(self) -> None:
        self._places: dict[Label, int] = {}
        self._sums: dict[str, Floats] = {}
        self._bins: dict[str, Counter[int]] = {}

    @property
    def labels(self) -> list[Label]:
        """In the order in which they came."""
        return list(self._places)

    def add(
        self, labels: Sequence[Label], sums: Mapping[str, Floats], spreads: Mapping[str, Floats] | None = None
    ) -> None:
        """Add n runs: to the sums, and to the bins of what quantiles are asked of (NaN is left out); all (n,)."""
        places = self._places
        at = np.array([places.setdefault(label, len(places)) for label in labels], np.int64)
        for measure, values in sums.items():
            added = np.bincount(at, values, len(places)).astype(np.float64)
            before = self._sums.get(measure, np.zeros(0))
            added[: len(before)] += before
            self._sums[measure] = added
        for measure, values in (spreads or {}).items():
            known = ~np.isnan(values)
            cells, counts = np.unique(at[known] * _BINS + _bins(values[known]), return_counts=True)
            counter = self._bins.setdefault(measure, Counter())
            for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
                counter[cell] += count

    def sum(self, label: Label, measure: str) -> float:
        """0 for a label that isn't there."""
        place = self._places.get(label)
        return 0.0 if place is None else float(self._sums[measure][place])

    def quantiles(self, label: Label, measure: str, shares: Sequence[float]) -> list[float | None]:
        """The least values (within 1 %) that at least these shares of the label's numbers don't exceed; None where it
        has none."""
        place = self._places.get(label, -1)
        counter = self._bins.get(measure, Counter())
        mine = sorted((cell % _BINS, count) for cell, count in counter.items() if cell // _BINS == place)
        if not mine:
            return [None for _ in shares]
        upto = np.cumsum([count for _, count in mine])
        found = np.searchsorted(upto, np.array(shares) * upto[-1] - 1e-9)
        return [_middle(mine[place][0]) for place in found.tolist()]
