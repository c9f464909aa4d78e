"""Greedy: Algorithm 1 of the paper (arXiv 2608.18503, A.3.1). First come, first served, each on the type that costs it
least, for which all behind it wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.base import Moment, Offers

UNKNOWN = np.finfo(np.float64).max
"""Cost of a pair of which nothing is known: more than any that is, less than where the job may not run."""


@dataclass(frozen=True)
class Greedy:
    """z_i = argmin_j (alpha t_ij + gamma e_ij)."""

    alpha: float = 1.0
    """Weight of a second."""
    gamma: float = 0.0
    """Weight of a kWh."""

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`. A job of which nothing is known takes the first type it may."""
        queue = moment.queue
        energy = np.where(np.isnan(queue.energy_kwh), 0.0, queue.energy_kwh)
        cost = self.alpha * queue.time_s + self.gamma * energy
        cost = np.where(queue.may, np.where(np.isnan(cost), UNKNOWN, cost), np.inf)
        return Offers(np.arange(len(queue)), cost.argmin(axis=1), in_order=True)
