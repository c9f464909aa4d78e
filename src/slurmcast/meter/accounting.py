"""From readings of one GPU to what it used. Pure: a tally goes in, with a reading, and a new tally comes out.

A span between two readings is settled by the card's energy counter where both have it and the counter ran on, else by
the trapezoid under the power of both where they are near enough, else it is a gap: unknown, not 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

N = TypeVar("N", int, float)

MAX_POWER_W = 3000.0
"""No GPU draws more, nor do a node's processors and memory: a counter that says so was reset in between."""
COUNTER_LAG_S = 1.0
"""Counters move in steps of up to this time."""

MAX_EDGE_S = 2.0
"""At the ends of a run, where the power changes most, no more time is settled without a reading on each side."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a GPU. What could not be read is None, never 0."""

    at: float
    """Seconds of a clock that never jumps."""
    power_w: float | None = None
    counter_j: float | None = None
    """What the card counted since its driver was loaded."""
    memory_bytes: int | None = None
    utilisation: float | None = None
    """Share of the last moments in which a kernel ran, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What one GPU used from the beginning of a run up to ``settled``."""

    settled: float
    last: Reading | None = None
    """The reading at ``settled``."""
    energy_j: float = 0.0
    counted_s: float = 0.0
    """Time settled by the counter."""
    sampled_s: float = 0.0
    """Time settled by the trapezoid."""
    gap_s: float = 0.0
    """Time of which nothing is known."""
    peak_power_w: float | None = None
    peak_memory_bytes: int | None = None
    busy_s: float = 0.0
    """Utilisation summed over the ``watched_s`` in which it could be read."""
    watched_s: float = 0.0


def add(tally: Tally, reading: Reading, max_gap_s: float) -> Tally:
    """``tally`` with one reading more. One that says nothing of energy settles nothing: the next one will."""
    tally = replace(
        tally,
        peak_power_w=_most(tally.peak_power_w, reading.power_w),
        peak_memory_bytes=_most(tally.peak_memory_bytes, reading.memory_bytes),
    )
    span = reading.at - tally.settled
    if span < 0 or (reading.power_w is None and reading.counter_j is None):
        return tally
    if reading.utilisation is not None and span <= max_gap_s:
        busy_s, watched_s = tally.busy_s + reading.utilisation * span, tally.watched_s + span
        tally = replace(tally, busy_s=busy_s, watched_s=watched_s)
    if (counted := _counted(tally.last, reading)) is not None:
        tally = replace(tally, energy_j=tally.energy_j + counted, counted_s=tally.counted_s + span)
    elif (power := _mean_power(tally.last, reading)) is not None and span <= (max_gap_s if tally.last else MAX_EDGE_S):
        tally = replace(tally, energy_j=tally.energy_j + power * span, sampled_s=tally.sampled_s + span)
    else:
        tally = replace(tally, gap_s=tally.gap_s + span)
    return replace(tally, settled=reading.at, last=reading)


def finish(tally: Tally, end: float, after: Reading | None, max_gap_s: float) -> Tally:
    """``tally`` up to the run's end: by the reading ``after`` it where that came soon, else by the last power, held."""
    last, span = tally.last, end - tally.settled
    if span <= 0:
        return tally
    if last is not None and after is not None and after.at - end <= MAX_EDGE_S and after.at - last.at <= max_gap_s:
        return add(tally, _between(last, after, end), max_gap_s)
    if last is not None and last.power_w is not None and span <= MAX_EDGE_S:
        energy_j = tally.energy_j + last.power_w * span
        return replace(tally, settled=end, energy_j=energy_j, sampled_s=tally.sampled_s + span)
    return replace(tally, settled=end, gap_s=tally.gap_s + span)


def counter_lost(tally: Tally) -> Tally:
    """``tally`` after the driver was loaded anew: the next counter can't be compared with the last one."""
    return tally if tally.last is None else replace(tally, last=replace(tally.last, counter_j=None))


def _counted(before: Reading | None, after: Reading) -> float | None:
    """Joules by the counter; None where it isn't there, or ran backwards or too fast: wrapped or reset."""
    if before is None or before.counter_j is None or after.counter_j is None:
        return None
    joules = after.counter_j - before.counter_j
    return joules if 0 <= joules <= MAX_POWER_W * (after.at - before.at + COUNTER_LAG_S) else None


def _mean_power(before: Reading | None, after: Reading) -> float | None:
    """The trapezoid's height; at a run's beginning, before which nothing was read, that of the first reading."""
    if before is None or after.power_w is None:
        return after.power_w
    return None if before.power_w is None else (before.power_w + after.power_w) / 2


def _between(before: Reading, after: Reading, at: float) -> Reading:
    """What a reading at ``at``, between the two, would have shown on straight lines."""
    share = (at - before.at) / (after.at - before.at)

    def line(low: float | None, high: float | None) -> float | None:
        return None if low is None or high is None else low + share * (high - low)

    counted = _counted(before, after)
    return replace(
        after,
        at=at,
        power_w=line(before.power_w, after.power_w),
        counter_j=None if counted is None or before.counter_j is None else before.counter_j + share * counted,
    )


def _most(one: N | None, other: N | None) -> N | None:
    return max((value for value in (one, other) if value is not None), default=None)
