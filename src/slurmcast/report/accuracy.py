"""Estimates against what became of them: errors, what the intervals held, time limits. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from slurmcast.model import HOUR_S
from slurmcast.report.sketch import Label, Tally
from slurmcast.report.usage import ALL
from slurmcast.store.columns import QUANTILES, Bools, Floats, Runs

PER_DECADE = 8
"""Cells of the scatter in a factor of ten, along each axis: neighbours are 33 % apart."""
RATIO_EDGES = (1 / 4, 1 / 2, 4 / 5, 5 / 4, 2.0, 4.0)
"""Of estimate / real: below the first, between the others, above the last."""
USED_BINS = 10
"""Of the share of a time limit that was used."""
_PLACES = ("below_p10", "p10_to_p50", "p50_to_p90", "above_p90")
"""Where the real value may lie in its interval, which should hold 10, 40, 40 and 10 % of them."""


class Accuracy:
    """Compares completed runs that had an estimate. A run that was cut off says only that it would have been longer."""

    def __init__(self) -> None:
        self.time, self.energy = Errors(), Errors()
        self.limits = Limits()
        self._counts: Counter[str] = Counter()

    def add(self, runs: Runs) -> None:
        """Compare these runs too."""
        completed = np.array([state == "COMPLETED" for state in runs.state], np.bool_)
        known = ~np.isnan(runs.time_s[:, 1])
        self._counts.update(completed=int(completed.sum()), compared=int((completed & known).sum()))
        self.time.add(runs, completed, runs.time_s, runs.elapsed_s)
        self.energy.add(runs, completed, runs.kwh, runs.energy_kwh)
        self.limits.add(runs, completed)

    def answer(self) -> dict[str, Any]:
        """How many completed runs had an estimate, and how those of ``time`` and ``energy`` did; ``limits``: the
        users' time limits."""
        return {
            "completed_runs": self._counts["completed"],
            "estimated_runs": self._counts["compared"],
            "time": self.time.answer(),
            "energy": self.energy.answer(),
            "limits": self.limits.answer(),
        }


class Errors:
    """Those of one quantity: in all, by the source of the estimate, and by partition of each source, since sources
    differ by more than partitions do."""

    def __init__(self) -> None:
        self._total: Tally[str] = Tally()
        self._by_source: Tally[str] = Tally()
        self._by_partition: Tally[tuple[str, str]] = Tally()
        """By partition and source."""
        self._cells: Counter[tuple[str, int, int]] = Counter()
        self._ratios = np.zeros(len(RATIO_EDGES) + 1, np.int64)

    def add(self, runs: Runs, chosen: Bools, predicted: Floats, real: Floats) -> None:
        """``predicted`` (n, 3) against ``real`` (n,), of the ``chosen`` runs where both are known and above 0."""
        at = np.flatnonzero(chosen & (predicted[:, 1] > 0) & (real > 0))
        predicted, real = predicted[at], real[at]
        p10, p50, p90 = predicted.T
        place = (real >= p10).astype(np.int64) + (real > p50) + (real > p90)
        sums = {name: (place == number).astype(np.float64) for number, name in enumerate(_PLACES)}
        ratio = p50 / real
        self._ratios += np.bincount(np.searchsorted(RATIO_EDGES, ratio), minlength=len(self._ratios))
        spreads = {"ratio": ratio, "error": np.abs(ratio - 1)}
        sources = [runs.source[i] for i in at.tolist()]
        self._total.add([ALL] * len(at), sums, spreads)
        self._by_source.add(sources, sums, spreads)
        partitions = [runs.partition[i] for i in at.tolist()]
        self._by_partition.add(list(zip(partitions, sources, strict=True)), sums, spreads)
        cells = np.floor(np.log10(np.stack([p50, real])) * PER_DECADE).astype(np.int64)
        self._cells.update(zip(sources, *cells.tolist(), strict=True))

    def answer(self) -> dict[str, Any]:
        """Figures in all, by source, and by partition of each source; ``ratios``: runs by estimate / real; and the
        scatter: for each source the ``cells`` ``[predicted, real, runs]``, at their middle."""
        sources = [{"name": name, **self._row(self._by_source, name)} for name in self._by_source.labels]
        partitions = [
            {"name": name, "source": source, **self._row(self._by_partition, (name, source))}
            for name, source in self._by_partition.labels
        ]
        cells: dict[str, list[list[float]]] = {}
        for (source, x, y), count in sorted(self._cells.items()):
            cells.setdefault(source, []).append([_middle(x), _middle(y), count])
        ratios = {"edges": list(RATIO_EDGES), "runs": self._ratios.tolist()}
        return {
            "total": self._row(self._total, ALL),
            "source": sorted(sources, key=lambda row: (-row["runs"], row["name"])),
            "partition": sorted(partitions, key=lambda row: (-row["runs"], row["name"], row["source"])),
            "ratios": ratios,
            "cells": cells,
        }

    @staticmethod
    def _row(tally: Tally[Label], label: Label) -> dict[str, Any]:
        counts = [round(tally.sum(label, place)) for place in _PLACES]
        runs = sum(counts)
        median, p90 = tally.quantiles(label, "error", (0.5, 0.9))
        spread = tally.quantiles(label, "ratio", QUANTILES)
        below: list[float] = (np.cumsum(counts[:3]) / runs).tolist() if runs else []
        return {
            "runs": runs,
            "median_error": median,
            "p90_error": p90,
            "inside_80": (counts[1] + counts[2]) / runs if runs else None,
            "below": below,
            "ratio": spread,
        }


class Limits:
    """The users' time limits against real times, and against what the estimates would have allowed."""

    def __init__(self) -> None:
        self._tally: Tally[str] = Tally()
        self._used = np.zeros(USED_BINS, np.int64)

    def add(self, runs: Runs, chosen: Bools) -> None:
        """Compare the ``chosen`` runs whose limit is known."""
        at = np.flatnonzero(chosen & (runs.limit_s > 0) & (runs.elapsed_s > 0))
        limit, real, high = runs.limit_s[at], runs.elapsed_s[at], runs.time_s[at, 2]
        estimated = high > 0  # nor NaN
        unused = {"unused_gpu_hours": runs.gpus[at] * np.maximum(limit - real, 0.0) / HOUR_S, "runs": np.ones(len(at))}
        both = {"estimated_limit": np.where(estimated, limit / real, np.nan), "p90": high / real}
        self._tally.add([ALL] * len(at), unused, {"limit": limit / real, **both})
        used = np.minimum((real / limit * USED_BINS).astype(np.int64), USED_BINS - 1)
        self._used += np.bincount(used, minlength=USED_BINS)

    def answer(self) -> dict[str, Any]:
        """Median of limit over real time, for all and where there was an estimate, beside that of p90 over real time;
        GPU hours that were asked for and not used; ``used``: runs by the share of the limit, in tenths."""

        def median(measure: str) -> float | None:
            return self._tally.quantiles(ALL, measure, (0.5,))[0]

        return {
            "runs": int(self._used.sum()),
            "limit_over_real": median("limit"),
            "limit_over_real_estimated": median("estimated_limit"),
            "p90_over_real": median("p90"),
            "unused_gpu_hours": self._tally.sum(ALL, "unused_gpu_hours") if self._used.any() else None,
            "used": self._used.tolist(),
        }


def _middle(cell: int) -> float:
    return float(10 ** ((cell + 0.5) / PER_DECADE))
