"""What the energy of finished runs emitted and cost: the grid's intensity and the price when they ran. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.footprint import Site
from slurmcast.series import Series
from slurmcast.store.columns import Floats, Runs

GAP = 1e-6
"""Share of a run's time about which a series may say nothing."""


@dataclass(frozen=True)
class Rates:
    """What turns measured energy into carbon, water and money. What isn't given is unknown, not zero."""

    site: Site
    price_per_kwh: float | None = None
    """Beside a series, what holds where that says nothing."""
    prices: Series | None = None
    currency: str = ""
    """The unit of prices, as people write it."""

    def carbon_kg(self, runs: Runs) -> Floats:
        """CO2 equivalent of each run, (n,)."""
        return self._used(runs) * _over(self.site.series, self.site.g_per_kwh, runs) / 1000

    def cost(self, runs: Runs) -> Floats:
        """What the energy of each run cost, (n,)."""
        return self._used(runs) * _over(self.prices, self.price_per_kwh, runs)

    def water_l(self, runs: Runs) -> Floats:
        """Litres of water of each run, (n,)."""
        wue = self.site.wue_l_per_kwh
        return runs.energy_kwh * (np.nan if wue is None else wue)

    def _used(self, runs: Runs) -> Floats:
        """What the site took from the grid for each run, in kWh."""
        return runs.energy_kwh * self.site.pue


def _over(series: Series | None, otherwise: float | None, runs: Runs) -> Floats:
    """The mean amount per kWh while each run ran; NaN where it isn't known for all of its time."""
    known = np.nan if otherwise is None else otherwise
    return np.full(len(runs), known) if series is None else means(series, runs.start_s, runs.end_s, known)


def means(series: Series, start: Floats, end: Floats, otherwise: float) -> Floats:
    """The mean of ``series`` from each ``start`` to its ``end`` (n,); ``otherwise`` stands where no value holds.

    The past is known or it isn't: unlike in a forecast, the series' own mean stands for nothing here.
    """
    span = np.maximum(end - start, 1.0)
    lengths = series.ends - series.starts
    edges = np.column_stack([series.starts, series.ends]).ravel()

    def over(amounts: Floats) -> Floats:
        """Of what adds up over the series, the part that falls into each span."""
        upto = np.column_stack([np.cumsum(amounts) - amounts, np.cumsum(amounts)]).ravel()
        part: Floats = np.interp(start + span, edges, upto) - np.interp(start, edges, upto)
        return part

    gap = 1 - over(lengths) / span
    return over(series.per_kwh * lengths) / span + np.where(gap > GAP, gap * otherwise, 0.0)
