"""Errors of the estimates that jobs had at their start, against how many jobs had finished by then. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from slurmcast.drift.figures import ALL, table
from slurmcast.model import Interval
from slurmcast.store.promises import Promise


@dataclass(frozen=True)
class Bucket:
    """Jobs at whose start ``first`` to ``last`` others had finished. Errors are medians of absolute percentage errors,
    of all estimates, from whatever source; shares and errors are fractions, None where there is nothing to tell."""

    first: int
    last: int
    jobs: int
    unknown: float
    """Share of them of which nothing learned said anything: they had the prior's estimate."""
    time_ape: float | None
    energy_ape: float | None
    coverage_time: float | None
    """Of the learned 80 % intervals."""
    coverage_energy: float | None


def curve(promises: Sequence[Promise], width: int) -> list[Bucket]:
    """Buckets of ``width`` finished jobs each."""
    ends = sorted(promise.outcome.end_time for promise in promises)
    groups: dict[int, list[Promise]] = defaultdict(list)
    for promise in promises:
        groups[bisect_right(ends, promise.outcome.start_time) // width].append(promise)
    return [_bucket(number * width, width, own) for number, own in sorted(groups.items())]


def by_source(promises: Sequence[Promise]) -> dict[str, dict[str, Any]]:
    """Jobs, errors and coverage of time by what estimates were made from."""
    groups: dict[str, list[Promise]] = defaultdict(list)
    for promise in promises:
        groups[promise.estimate.source.value].append(promise)
    return {source: _of_source(own) for source, own in sorted(groups.items())}


def _of_source(own: Sequence[Promise]) -> dict[str, Any]:
    told = [(i, p.outcome.elapsed_s) for p in own if (i := p.estimate.time_s) is not None]
    return {
        "jobs": len(own),
        "time_ape": _median([_ape(interval, truth) for interval, truth in told]),
        "coverage_time": sum(i.p10 <= truth <= i.p90 for i, truth in told) / len(told) if told else None,
        "width": _median([interval.p90 / interval.p10 for interval, _ in told]),
    }


def _bucket(first: int, width: int, own: Sequence[Promise]) -> Bucket:
    rows = {row.target: row for row in table(own) if row.partition == ALL} or {row.target: row for row in table(own)}
    times = [_ape(p.estimate.time_s, p.outcome.elapsed_s) for p in own]
    energies = [_ape(p.estimate.energy_kwh, p.outcome.energy_kwh) for p in own]
    return Bucket(
        first,
        first + width - 1,
        len(own),
        rows["time"].unknown,
        _median(times),
        _median(energies),
        rows["time"].coverage,
        rows["energy"].coverage if "energy" in rows else None,
    )


def _ape(estimate: Interval | None, truth: float | None) -> float | None:
    return None if estimate is None or not truth else abs(estimate.p50 / truth - 1)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def rounded(figures: dict[str, Any]) -> dict[str, Any]:
    """For the last line."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
