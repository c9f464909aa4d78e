"""Energy that counts by what it costs, or emits, while the job would run: a wrapper around any policy. Ours.

A day-ahead table (:mod:`slurmcast.series`) says what a kWh costs hour by hour. e_ij is multiplied by the mean over the
hours in which the job would run if it started now, next to the mean of the whole table. So kappa keeps its unit and
means what a kWh is worth at the mean price. Nothing waits for a cheaper hour by this alone, but under a policy that
leaves GPUs idle rather than waste energy (the patient rule).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurmcast.policy.base import Floats, Moment, Offers, Policy
from slurmcast.series import Series


@dataclass(frozen=True)
class Priced:
    """The policy, told of energies by their price."""

    policy: Policy
    series: Series

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        return self.policy(weighted(moment, energy_weights(self.series, moment.now_s, moment.queue.time_s)))


def weighted(moment: Moment, weights: Floats) -> Moment:
    """The moment with all energies times ``weights`` (n, m)."""
    return replace(moment, queue=replace(moment.queue, energy_kwh=moment.queue.energy_kwh * weights))


def energy_weights(series: Series, now_s: float, time_s: Floats) -> Floats:
    """The price of a kWh over the next ``time_s`` seconds next to that of the whole ``series``, in the shape of
    ``time_s``; by the first second where that is NaN.

    Where the series says nothing it counts as its mean. A negative price counts as 0: energy is never worth wasting,
    and so the mean weight over the series is 1. All are 1 where that mean is 0.
    """
    price, lengths = np.maximum(series.per_kwh, 0.0), series.ends - series.starts
    mean = float(price @ lengths / lengths.sum())
    if mean <= 0:
        return np.ones_like(time_s)
    span = np.maximum(np.nan_to_num(time_s, nan=1.0), 1.0)
    edges = np.column_stack([series.starts, series.ends]).ravel()

    def over_span(amounts: Floats) -> Floats:
        """Of what adds up over the series, the part that falls into each span."""
        upto = np.column_stack([np.cumsum(amounts) - amounts, np.cumsum(amounts)]).ravel()
        part: Floats = np.interp(now_s + span, edges, upto) - np.interp(now_s, edges, upto)
        return part

    return (over_span(price * lengths) / mean + span - over_span(lengths)) / span
