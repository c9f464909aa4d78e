"""Figures of a report as people read them, for the terminal and the page. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from slurmcast import show
from slurmcast.show import duration

Answer = Mapping[str, Any]
UNKNOWN = "-"
"""For what isn't known or wasn't measured, which is never 0."""
NOTHING = "No GPU run ended in this time; --since takes earlier dates."


def count(value: int) -> str:
    return f"{value:,}"


def number(value: float | None) -> str:
    """Three digits that count, or the whole of larger numbers: ``0.0123``, ``12.3``, ``12,345``."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:.2e}" if places > 6 else f"{value:,.{max(places, 0)}f}"


def percent(share: float | None) -> str:
    return show.percent(share, UNKNOWN)


def times(factor: float | None) -> str:
    """``1.25x``."""
    return UNKNOWN if factor is None else f"{number(factor)}x"


def wait(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def money(value: float | None) -> str:
    """Two places, more of what is less than 1."""
    return number(value) if value is None or abs(value) < 1 else f"{value:,.2f}"


def coverage(row: Answer) -> float | None:
    """Share of the GPU hours whose energy was measured."""
    return row["measured_gpu_hours"] / row["gpu_hours"] if row["gpu_hours"] else None


def day(at: float) -> str:
    """Unix seconds as a local date, with the time where it isn't midnight."""
    then = datetime.fromtimestamp(at)
    return then.strftime("%Y-%m-%d" if (then.hour, then.minute) == (0, 0) else "%Y-%m-%d %H:%M")


def heading(answer: Answer) -> str:
    """Which runs a report is of: ``GPU runs on cluster c that ended from ... to ..., user u, account a``."""
    who = [f"{what} {answer[what]}" for what in ("user", "account") if answer[what] is not None]
    span = f"{day(answer['since'])} to {day(answer['until'])}"
    return ", ".join([f"GPU runs on cluster {answer['cluster']} that ended from {span}", *(who or ["all users"])])


def label(name: str) -> str:
    """A row's name, with nothing in it that a terminal obeys; what Slurm or an earlier version didn't tell has none."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name) or "(unknown)"


def sentences(answer: Answer) -> list[str]:
    """What stands in no table on a terminal: what its columns mean, waiting, water, time limits, changes, learning."""
    total, estimates = answer["total"], answer["estimates"]
    said = [
        "lost: share of the GPU hours in runs that didn't complete; measured: share of them with measured energy.",
        f"Half of the runs waited at most {wait(total['wait_p50_s'])}, nine of ten {wait(total['wait_p90_s'])}.",
    ]
    if total["water_l"] is not None:
        said.append(f"Water: {number(total['water_l'])} L.")
    if estimates["limits"]["runs"]:
        said.append(limits(estimates["limits"]))
    said.append(changed(total))
    if answer["learning"]:
        said.append(learned(answer["learning"]))
    return said


def limits(figures: Answer) -> str:
    """Time limits against real times."""
    text = (
        f"The time limits of {count(figures['runs'])} completed runs were {times(figures['limit_over_real'])} the real "
        f"time (median); {number(figures['unused_gpu_hours'])} GPU hours that were asked for weren't used."
    )
    if figures["p90_over_real"] is None:
        return text
    return (
        f"{text} Where there was an estimate, its p90 was {times(figures['p90_over_real'])} the real time, and the "
        f"limit {times(figures['limit_over_real_estimated'])}."
    )


def changed(total: Answer) -> str:
    """What slurmcast did to the queue."""
    runs, made, placed = (count(total[key]) for key in ("changed_runs", "changes", "placed_runs"))
    return (
        f"Of {count(total['runs'])} runs, slurmcast changed {runs} while they waited ({made} changes of place in the "
        f"queue or partition), and chose the partition of {placed} among several that were possible."
    )


def learned(learning: Answer) -> str:
    """Trainings and drift."""
    trainings, drift = learning["trainings"], learning["drift"]
    promoted = sum(training["promoted"] for training in trainings)
    text = f"Trainings begun: {len(trainings)}; new models put to use: {promoted}."
    if drift is None:
        return text
    alarms = "; ".join(drift["alarms"]) or "no drift"
    return f"{text} Drift, looked at on {day(drift['at'])}: {alarms}."
