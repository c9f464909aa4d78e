"""The patient rule: the value rule (``policy/value.py``), but a job isn't put where its value is negative. Ours.

Algorithm 2 of the paper takes every pair that fits, down to the least value, so that a free GPU of the poor type is
always used, whatever energy that costs. A multiple knapsack takes no item of negative value. Here a pair (i, j) with
v_ij < 0 is offered only where j is the job's best partition: the job waits for it rather than run where kappa e_ij
outweighs 1 / (a_ij t_ij). With kappa = 0 no value is negative, and both rules are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.base import Floats, Moment, Offers
from slurmcast.policy.value import by_value, queue_values, with_unknown


@dataclass(frozen=True)
class Patient:
    """The rule as a policy."""

    kappa: float | Floats
    """In 1/(GPU s kWh): one for all, or an array that broadcasts to the pairs (n, m)."""

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        queue = moment.queue
        return by_value(with_unknown(queue, offered(queue_values(queue, self.kappa))))


def offered(v: Floats) -> Floats:
    """The values (n, m) that :func:`slurmcast.policy.value.by_value` may offer: NaN where waiting is better."""
    best = np.where(np.isnan(v), -np.inf, v).max(axis=1, keepdims=True, initial=-np.inf)
    result: Floats = np.where((v < 0) & (v < best), np.nan, v)
    return result
