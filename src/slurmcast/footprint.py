"""Carbon and water of a job, derived from its energy. Pure.

    carbon_kg = energy_kwh * PUE * intensity / 1000        water_l = energy_kwh * WUE

Energy is that of the job's GPUs. PUE, power usage effectiveness: energy of the whole site per energy of its computers
(ISO/IEC 30134-2). WUE, water usage effectiveness: litres per kWh of the computers (ISO/IEC 30134-9), so PUE is no part
of it. Intensity: grams of CO2 equivalent per kWh from the grid, a number or a series over time.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from slurmcast.model import Interval

COLUMNS = ("time", "g_per_kwh")
LONGEST_HOLD = 2.0
"""For how many usual steps of a series a value holds where the next one is late; beyond that is a gap."""
ONLY_HOLD_S = 3600.0
"""The same for a series of one value."""

Numbers = NDArray[np.float64]


class SeriesError(ValueError):
    """The series can't be read; the message says which line and what it must be."""


@dataclass(frozen=True)
class Series:
    """Grid intensity over time: ``g_per_kwh[i]`` holds from ``starts[i]`` until ``ends[i]``, Unix seconds."""

    starts: Numbers
    ends: Numbers
    g_per_kwh: Numbers

    @property
    def overall(self) -> float:
        """The mean over all the time that has a value."""
        return float(np.average(self.g_per_kwh, weights=self.ends - self.starts))

    def mean(self, start: float, end: float, otherwise: float | None = None) -> float:
        """The mean from ``start`` to ``end``; ``otherwise``, or else :attr:`overall`, stands where no value holds."""
        end = max(end, start + 1)
        inside = slice(np.searchsorted(self.ends, start, "right"), np.searchsorted(self.starts, end))
        lengths = np.minimum(self.ends[inside], end) - np.maximum(self.starts[inside], start)
        known, share = float(lengths @ self.g_per_kwh[inside]), float(lengths.sum()) / (end - start)
        return known / (end - start) + (1 - share) * (self.overall if otherwise is None else otherwise)


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


def read_series(text: str) -> Series:
    """A CSV table with the columns ``time`` (ISO 8601 with its offset, or Unix seconds) and ``g_per_kwh``; any others
    are passed over.

    Times ascend. A value holds until the next one, but for :data:`LONGEST_HOLD` usual (median) steps at most, and the
    last for one step. Raises :class:`SeriesError`.
    """
    rows = csv.DictReader(text.splitlines(), strict=True)
    try:
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise SeriesError(f"line 1: must name the columns {', '.join(COLUMNS)}")
        times, values = [], []
        for row in rows:
            try:
                times.append(_time(row["time"]))
                values.append(_intensity(row["g_per_kwh"]))
                if len(times) > 1 and times[-1] <= times[-2]:
                    raise ValueError("times must ascend")
            except ValueError as error:
                raise SeriesError(f"line {rows.line_num}: {error}") from None
    except csv.Error as error:
        raise SeriesError(f"after line {rows.line_num}: {error}") from None
    if not times:
        raise SeriesError("there is no value in it")
    starts = np.array(times)
    steps = np.diff(starts)
    step = float(np.median(steps)) if len(steps) else ONLY_HOLD_S
    ends = np.append(np.minimum(starts[1:], starts[:-1] + LONGEST_HOLD * step), starts[-1] + step)
    return Series(starts, ends, np.array(values))


def _time(text: str | None) -> float:
    try:
        return _number(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat((text or "").strip())
        if moment.tzinfo is None:
            raise ValueError
    except ValueError:
        allowed = "must be like 2026-03-01T13:00Z or 2026-03-01T14:00+01:00, or Unix seconds"
        raise ValueError(f"time {text!r}: {allowed}") from None
    return moment.timestamp()


def _intensity(text: str | None) -> float:
    try:
        value = _number(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise ValueError(f"g_per_kwh {text!r}: must be a number from 0 up")
    return value


def _number(text: str | None) -> float:
    value = float(text or "")
    if not math.isfinite(value):
        raise ValueError
    return value


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(interval.p10 * factor, interval.p50 * factor, interval.p90 * factor)
