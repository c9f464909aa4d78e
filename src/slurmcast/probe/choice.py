"""Which of several estimates of a job is given: prior, history or probe. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from slurmcast.model import Estimate
from slurmcast.probe.model import Model

Estimates = Sequence[Estimate]


def choose(prior: Estimates, history: Estimates, probe: Estimates, *, news: bool) -> tuple[Estimate, ...]:
    """One source for all partitions of a job, since the ratio between them is what counts. The first that applies:

    1. The probe says nothing: history; where that says nothing either, the prior.
    2. The probe has learned from all that history rests on (``news`` is False): the probe.
    3. History speaks of each partition of which the probe does, with narrower intervals: history.
    4. The probe.
    """
    told, learned = _widths(history), _widths(probe)
    if not learned:
        return tuple(history if told else prior)
    surer = learned.keys() <= told.keys() and fmean(told[name] for name in learned) < fmean(learned.values())
    return tuple(history if news and surer else probe)


def learned_until(model: Model) -> float:
    """When the last job ended that the model learned from, in Unix seconds; infinity where it doesn't say."""
    return float(model.figures.get("learned_until", math.inf))


def _widths(estimates: Estimates) -> dict[str, float]:
    """Logarithm of p90 / p10 of the time, by partition; those whose time isn't known are left out."""
    return {e.partition: math.log(e.time_s.p90 / e.time_s.p10) for e in estimates if e.time_s is not None}
