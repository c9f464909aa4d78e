"""What a kWh emits or costs over time: a series and the table that it is read from. Pure."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

CARBON, PRICE = "g_per_kwh", "price_per_kwh"
"""The columns that may hold the values: grams of CO2 equivalent, or money of any currency; prices may be negative."""
LONGEST_HOLD = 2.0
"""For how many usual steps of a series a value holds where the next one is late; beyond that is a gap."""
LARGEST = 1e12
"""Times and values are smaller; Unix milliseconds aren't."""
ONLY_HOLD_S = 3600.0
"""The same for a series of one value."""

Numbers = NDArray[np.float64]


class SeriesError(ValueError):
    """The series can't be read; the message says which line and what it must be."""


@dataclass(frozen=True)
class Series:
    """Amounts per kWh over time: ``per_kwh[i]`` holds from ``starts[i]`` until ``ends[i]``, Unix seconds."""

    starts: Numbers
    ends: Numbers
    per_kwh: Numbers

    @property
    def overall(self) -> float:
        """The mean over all the time that has a value."""
        return float(np.average(self.per_kwh, weights=self.ends - self.starts))

    def mean(self, start: float, end: float, otherwise: float | None = None) -> float:
        """The mean from ``start`` to ``end``; ``otherwise``, or else :attr:`overall`, stands where no value holds."""
        end = max(end, start + 1)
        inside = slice(np.searchsorted(self.ends, start, "right"), np.searchsorted(self.starts, end))
        lengths = np.minimum(self.ends[inside], end) - np.maximum(self.starts[inside], start)
        known, share = float(lengths @ self.per_kwh[inside]), float(lengths.sum()) / (end - start)
        return known / (end - start) + (1 - share) * (self.overall if otherwise is None else otherwise)


def read_series(text: str, columns: Sequence[str] = (CARBON,)) -> Series:
    """A CSV table with the columns ``time`` (ISO 8601 with its offset, or Unix seconds) and one of ``columns``, the
    first that it has; any others are passed over.

    Times ascend. A value holds until the next one, but for :data:`LONGEST_HOLD` usual (median) steps at most, and the
    last for one step. Raises :class:`SeriesError`.
    """
    rows = csv.DictReader(text.splitlines(), strict=True)
    try:
        named = rows.fieldnames or ()
        column = next((column for column in columns if column in named), None)
        if column is None or "time" not in named:
            raise SeriesError(f"line 1: must name the columns time, {' or '.join(columns)}")
        times, values = [], []
        for row in rows:
            try:
                times.append(_time(row["time"]))
                values.append(_amount(row[column], column))
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


def _amount(text: str | None, column: str) -> float:
    try:
        value = _number(text)
        if value < 0 and column != PRICE:
            raise ValueError
    except ValueError:
        raise ValueError(f"{column} {text!r}: must be a number" + " from 0 up" * (column != PRICE)) from None
    return value


def _number(text: str | None) -> float:
    value = float(text or "")
    if not abs(value) < LARGEST:  # nor NaN
        raise ValueError
    return value
