"""Carbon and water of a job, derived from its energy. Pure.

    carbon_kg = energy_kwh * PUE * intensity / 1000        water_l = energy_kwh * WUE

Energy is that of the job's GPUs. PUE, power usage effectiveness: energy of the whole site per energy of its computers
(ISO/IEC 30134-2). WUE, water usage effectiveness: litres per kWh of the computers (ISO/IEC 30134-9), so PUE is no part
of it. Intensity: grams of CO2 equivalent per kWh from the grid, a number or a series over time.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurmcast.model import Interval
from slurmcast.series import Series


@dataclass(frozen=True)
class Site:
    """What turns energy into carbon and water. What isn't given is unknown, not zero."""

    g_per_kwh: float | None = None
    """Grid intensity; beside a series, what holds where that says nothing."""
    series: Series | None = None
    pue: float = 1.0
    wue_l_per_kwh: float | None = None

    def carbon_kg(self, energy_kwh: Interval | None, time_s: Interval | None, start: float) -> Interval | None:
        """CO2 equivalent of a job that starts at ``start``; None where something that it depends on is unknown.

        All three quantiles take the intensity of the median running time, so they are those of the energy.
        """
        if energy_kwh is None:
            return None
        if self.series is None:
            intensity = self.g_per_kwh
        else:
            intensity = self.series.mean(start, start + time_s.p50, self.g_per_kwh) if time_s is not None else None
        return None if intensity is None else _times(energy_kwh, self.pue * intensity / 1000)

    def water_l(self, energy_kwh: Interval | None) -> Interval | None:
        """Water for cooling, in litres; None where something that it depends on is unknown."""
        if energy_kwh is None or self.wue_l_per_kwh is None:
            return None
        return _times(energy_kwh, self.wue_l_per_kwh)


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(interval.p10 * factor, interval.p50 * factor, interval.p90 * factor)
