"""How promises were kept: coverage, errors, what was unknown, and whether any of it has become worse. Pure.

One test for each stream of observations: truths outside the 80 % intervals, by target and GPU partition and over all
partitions, and jobs of which nothing learned says anything. Runs of one work differ little, so that an array of a
thousand tasks tells hardly more than one of them: what a work's runs did on a partition in a day is one observation,
their mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from slurmcast.drift.cusum import cusum, threshold
from slurmcast.labels import MIN_TIME_S, of_one_kind
from slurmcast.model import DAY_S, Estimate, Interval, Outcome, Source
from slurmcast.store.promises import Promise

TARGETS = ("time", "energy")
"""What is watched, and compared: all that jobs are ordered by."""
LEARNED = (Source.PROBE, Source.ALIGN, Source.HISTORY)
"""Sources whose 80 % intervals are made to hold. The prior's are a guess, and the sign that nothing was learned."""
MISSED = 0.2
"""Share of truths outside that 80 % intervals allow."""
RISE = 0.2
"""The rise that is looked for: 40 % outside in place of 20 %. Up to about half of it is never an alarm."""
USUALLY_UNKNOWN = 0.1
"""Share of jobs of which a model says nothing, where no test said."""
ALL = "all"
"""In the place of a partition: all together."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A promise that isn't kept any more."""

    what: str
    """``outside``: too many truths are outside their intervals; ``unknown``: too many jobs are like none that was
    learned from."""
    target: str
    partition: str
    since: float
    """When the test said so, in Unix seconds."""
    share: float
    """Of the observations since the model was put to use."""
    promised: float
    changed: float
    """When it began, as far as the test can tell: when the last run ended that spoke for the promise as a whole."""

    @property
    def text(self) -> str:
        """For people."""
        where = "" if self.partition == ALL else f" on {self.partition}"
        if self.what == "unknown":
            return f"{self.share:.0%} of jobs are like none that was learned from, {self.promised:.0%} were expected"
        what = "times" if self.target == "time" else "energies"
        return f"{self.share:.0%} of {what}{where} lie outside their 80 % intervals"


def alarms(promises: Sequence[Promise], unknown: float | None, false_alarm_jobs: float) -> list[Alarm]:
    """What the ``promises`` of one model, in the order in which the runs ended, say against it.

    ``unknown``: the share of jobs that were unknown to it when it was tested, None where that isn't known.
    ``false_alarm_jobs``: about how many observations pass on average until a false alarm, of all tests together.
    """
    final = of_one_kind(promise for promise in promises if promise.model is not None)
    usual = min(max(USUALLY_UNKNOWN if unknown is None else unknown, 0.02), 0.95 - RISE)
    streams: list[tuple[str, str, str, float, list[tuple[Promise, float]]]] = [
        ("unknown", "time", ALL, usual, [(promise, float(not _is_learned(promise))) for promise in final])
    ]
    for target in TARGETS:
        missed = [(p, float(not i.p10 <= truth <= i.p90)) for p, i, truth in _told(final, target)]
        names = sorted({promise.outcome.partition for promise, _ in missed})
        for name in ([ALL] if len(names) != 1 else []) + names:
            own = [(promise, miss) for promise, miss in missed if name in (ALL, promise.outcome.partition)]
            streams.append(("outside", target, name, MISSED, own))
    found = []
    for what, target, name, promised, values in streams:
        moments, observed = _by_day(values)
        height = threshold(promised, promised + RISE, false_alarm_jobs * len(streams))
        level = cusum(observed, promised, promised + RISE, height)
        if level.crossed is not None:
            changed = moments[level.rose - 1] if level.rose else values[0][0].outcome.start_time
            found.append(Alarm(what, target, name, moments[level.crossed], fmean(observed), promised, changed))
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """How the promises of one target were kept on one partition, or on all; shares and errors are fractions."""

    target: str
    partition: str
    jobs: int
    """Those that were measured."""
    unknown: float
    """Share of them of which nothing learned said anything; the rest is of the others, None where there are none."""
    coverage: float | None
    """Share of truths inside the 80 % intervals,"""
    coverage_low: float | None
    """with the ends of its own 95 % interval."""
    coverage_high: float | None
    median_ape: float | None
    """Median of the medians' absolute percentage errors."""


def table(promises: Sequence[Promise]) -> tuple[Row, ...]:
    """A row for each target and partition, and for all partitions together where there are several."""
    names = sorted({promise.outcome.partition for promise in promises})
    rows, of_kind = [], of_one_kind(promises)
    for target in TARGETS:
        known = [promise for promise in of_kind if math.isfinite(measured(promise.outcome, target))]
        for name in ([ALL] if len(names) > 1 else []) + names:
            own = [promise for promise in known if name in (ALL, promise.outcome.partition)]
            if own:
                rows.append(_row(target, name, own))
    return tuple(rows)


def _row(target: str, partition: str, promises: Sequence[Promise]) -> Row:
    told = _told(promises, target)
    unknown = (len(promises) - len(told)) / len(promises)
    if not told:
        return Row(target, partition, len(promises), unknown, None, None, None, None)
    inside = sum(expected.p10 <= truth <= expected.p90 for _, expected, truth in told)
    low, high = wilson(inside, len(told))
    errors = median(abs(expected.p50 / truth - 1) for _, expected, truth in told)
    return Row(target, partition, len(promises), unknown, inside / len(told), low, high, errors)


def wilson(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Ends of the 95 % interval of a share (Wilson 1927), which holds for few observations and near 0 and 1 too."""
    share = successes / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _told(promises: Iterable[Promise], target: str) -> list[tuple[Promise, Interval, float]]:
    """The promises with a learned interval of the target, and the truth, where it was measured."""
    found = []
    for promise in promises:
        expected, truth = interval(promise.estimate, target), measured(promise.outcome, target)
        if expected is not None and _is_learned(promise) and math.isfinite(truth):
            found.append((promise, expected, truth))
    return found


def _is_learned(promise: Promise) -> bool:
    return promise.estimate.source in LEARNED and promise.estimate.time_s is not None


def interval(estimate: Estimate, target: str) -> Interval | None:
    """What is expected of ``target``."""
    return estimate.time_s if target == "time" else estimate.energy_kwh


def measured(outcome: Outcome, target: str) -> float:
    """Seconds or kWh; NaN where it wasn't measured."""
    return max(outcome.elapsed_s, MIN_TIME_S) if target == "time" else outcome.energy_kwh or math.nan


def _by_day(values: Iterable[tuple[Promise, float]]) -> tuple[list[float], list[float]]:
    """One observation for each work, partition and day: when its last run ended, and the mean of its values."""
    groups: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for promise, value in values:
        ended = promise.outcome.end_time
        groups[promise.key, promise.outcome.partition, ended // DAY_S].append((ended, value))
    found = sorted((max(ended for ended, _ in group), fmean(value for _, value in group)) for group in groups.values())
    return [ended for ended, _ in found], [value for _, value in found]
