"""Figures of a report as people read them, for the terminal and the page. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from slurmcast.show import duration

Answer = Mapping[str, Any]
UNKNOWN = "-"
"""For what isn't known or wasn't measured, which is never 0."""


def count(value: int) -> str:
    return f"{value:,}"


def number(value: float | None) -> str:
    """Three digits that count, or the whole of larger numbers: ``0.0123``, ``12.3``, ``12,345``."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.2e}" if places > 6 else f"{value:,.{max(places, 0)}f}"


def percent(share: float | None) -> str:
    """``7.5 %``, ``42 %``; whole above 10."""
    if share is None:
        return UNKNOWN
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def times(factor: float | None) -> str:
    """``1.25x``."""
    return UNKNOWN if factor is None else f"{number(factor)}x"


def wait(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def money(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.2f}"


def coverage(row: Answer) -> float | None:
    """Share of the GPU hours whose energy was measured."""
    return row["measured_gpu_hours"] / row["gpu_hours"] if row["gpu_hours"] else None


def day(at: float) -> str:
    """Unix seconds as a local date, with the time where it isn't midnight."""
    then = datetime.fromtimestamp(at)
    return then.strftime("%Y-%m-%d" if (then.hour, then.minute) == (0, 0) else "%Y-%m-%d %H:%M")


def heading(answer: Answer) -> str:
    """Whose runs of which time: ``Runs on cluster c from ... to ..., user u, account a``."""
    who = [f"{what} {answer[what]}" for what in ("user", "account") if answer[what] is not None]
    span = f"{day(answer['since'])} to {day(answer['until'])}"
    return ", ".join([f"GPU runs on cluster {answer['cluster']} that ended from {span}", *(who or ["all users"])])


def label(name: str) -> str:
    """A row's name; what Slurm or an earlier version didn't tell has none."""
    return name or "(unknown)"
