"""When partitions changed, and what that makes of the runs before: runs on another GPU type. Pure.

After a change of the cluster (a driver, a file system) old runs still tell how large a work is, but not any more how
long it takes there. That is what runs on another type tell, too. So those from before the change count as a type of
their own: the probe learns the ratio between before and after from the works that ran since, as between any two types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slurmcast.drift.figures import ALL, Alarm
from slurmcast.store.records import Label

Changes = Mapping[str, float]
"""When each partition changed, in Unix seconds; one that isn't there didn't."""


def changes(alarms: Iterable[Alarm], partitions: Iterable[str]) -> dict[str, float]:
    """What ``alarms`` say of ``partitions``: those that one names changed when the first of its alarms says. Where no
    alarm names one, but all together have drifted, each of them did."""
    outside = [alarm for alarm in alarms if alarm.what == "outside"]
    last_first = sorted(outside, key=lambda alarm: alarm.since, reverse=True)
    named = {alarm.partition: alarm.changed for alarm in last_first if alarm.partition != ALL}
    return named or {name: alarm.changed for alarm in last_first for name in partitions}


def apart(labels: Sequence[Label], known: Changes) -> list[Label]:
    """``labels`` with runs that ended before their partition changed as those of a partition and GPU type that is no
    more."""
    return [_former(label, known) for label in labels]


def _former(label: Label, known: Changes) -> Label:
    outcome = label.outcome
    changed = known.get(outcome.partition)
    if changed is None or outcome.end_time > changed:
        return label
    day = datetime.fromtimestamp(changed, UTC).strftime("%Y-%m-%d %H:%M")
    name = f"{outcome.gpu_type or outcome.partition} until {day}"
    return replace(label, outcome=replace(outcome, partition=name, gpu_type=name))
