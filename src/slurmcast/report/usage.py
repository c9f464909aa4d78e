"""What runs used, waited and cost: in all, and by user, account, partition, week and state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from slurmcast.model import HOUR_S
from slurmcast.report.rates import Rates
from slurmcast.report.sketch import Tally
from slurmcast.store.columns import Floats, Runs

MOST_ROWS = 200
"""Rows of a table; those with the fewest GPU hours are one row beyond."""
OTHERS = "(others)"
ALL = ""
DIMENSIONS = ("user", "account", "partition", "week", "state")
QUARTER_S = 900
"""Every zone's midnight falls on one."""
_KNOWN_OF = {"energy_kwh": "measured_runs", "carbon_kg": "carbon_runs", "cost": "cost_runs", "water_l": "water_runs"}
"""Amounts, and the count of the runs of which each is known."""


class Usage:
    """Adds up runs. Weeks begin on Monday, in the local zone of whoever adds up."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._by: dict[str, Tally[str]] = {dimension: Tally() for dimension in ("total", *DIMENSIONS)}

    def add(self, runs: Runs) -> None:
        """Count these runs too."""
        sums = self._sums(runs)
        waits = {"wait_s": np.maximum(runs.start_s - runs.submit_s, 0.0)}
        labels: dict[str, Sequence[str]] = {
            "user": runs.user,
            "account": runs.account,
            "partition": runs.partition,
            "week": [week(int(end // QUARTER_S)) for end in runs.end_s.tolist()],
            "state": runs.state,
        }
        self._by["total"].add([ALL] * len(runs), sums, waits)
        for dimension, names in labels.items():
            self._by[dimension].add(names, sums)

    def _sums(self, runs: Runs) -> dict[str, Floats]:
        amounts = {
            "energy_kwh": runs.energy_kwh,
            "carbon_kg": self._rates.carbon_kg(runs),
            "cost": self._rates.cost(runs),
            "water_l": self._rates.water_l(runs),
        }
        hours = runs.gpus * runs.elapsed_s / HOUR_S
        lost = np.array([state != "COMPLETED" for state in runs.state], np.float64)
        measured = (~np.isnan(runs.energy_kwh)).astype(np.float64)
        counts = {_KNOWN_OF[name]: (~np.isnan(amount)).astype(np.float64) for name, amount in amounts.items()}
        return {
            "runs": np.ones(len(runs)),
            "gpu_hours": hours,
            **counts,
            **{name: np.nan_to_num(amount) for name, amount in amounts.items()},
            "measured_gpu_hours": hours * measured,
            "wait_s": np.maximum(runs.start_s - runs.submit_s, 0.0),
            "lost_runs": lost,
            "lost_gpu_hours": hours * lost,
            "lost_measured_runs": lost * measured,
            "lost_energy_kwh": lost * np.nan_to_num(runs.energy_kwh),
            "changed_runs": (runs.changes > 0).astype(np.float64),
            "changes": runs.changes,
            "placed_runs": runs.placed.astype(np.float64),
        }

    def answer(self) -> dict[str, Any]:
        """``total``, and ``by`` the rows of each dimension: weeks in their order, the others by GPU hours."""
        total = self._by["total"]
        median, p90 = total.quantiles(ALL, "wait_s", (0.5, 0.9))
        waits = {"wait_p50_s": median, "wait_p90_s": p90}
        tables = {dimension: self._rows(dimension) for dimension in DIMENSIONS}
        return {"total": self._row(total, [ALL]) | waits, "by": tables}

    def _rows(self, dimension: str) -> list[dict[str, Any]]:
        tally = self._by[dimension]
        if dimension == "week":
            return [{"name": name, **self._row(tally, [name])} for name in sorted(tally.labels)]
        ranked = sorted(tally.labels, key=lambda name: (-tally.sum(name, "gpu_hours"), name))
        rows = [{"name": name, **self._row(tally, [name])} for name in ranked[:MOST_ROWS]]
        if rest := ranked[MOST_ROWS:]:
            rows.append({"name": OTHERS, **self._row(tally, rest)})
        return rows

    @staticmethod
    def _row(tally: Tally[str], names: Sequence[str]) -> dict[str, Any]:
        def whole(measure: str) -> int:
            return round(amount(measure))

        def amount(measure: str) -> float:
            return sum(tally.sum(name, measure) for name in names)

        def known(measure: str, count: str) -> float | None:
            return amount(measure) if whole(count) else None

        runs = whole("runs")
        return {
            "runs": runs,
            "gpu_hours": amount("gpu_hours"),
            **{count: whole(count) for count in _KNOWN_OF.values()},
            **{measure: known(measure, count) for measure, count in _KNOWN_OF.items()},
            "measured_gpu_hours": amount("measured_gpu_hours"),
            "wait_mean_s": amount("wait_s") / runs if runs else None,
            "lost_runs": whole("lost_runs"),
            "lost_gpu_hours": amount("lost_gpu_hours"),
            "lost_measured_runs": whole("lost_measured_runs"),
            "lost_energy_kwh": known("lost_energy_kwh", "lost_measured_runs"),
            "changed_runs": whole("changed_runs"),
            "changes": whole("changes"),
            "placed_runs": whole("placed_runs"),
        }


@lru_cache(1 << 16)
def week(quarter: int) -> str:
    """The Monday of the week, in local time, of a quarter of an hour (counted since 1970), as an ISO date."""
    day = datetime.fromtimestamp(quarter * QUARTER_S).date()
    return (day - timedelta(days=day.weekday())).isoformat()
