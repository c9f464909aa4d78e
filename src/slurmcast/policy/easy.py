"""EASY backfilling (Lifka 1995), what most sites have: first come, first served; the first job that can't start
reserves where it can start earliest, and later ones may start if they don't delay it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.backfill import Belief, starts
from slurmcast.policy.base import Moment, Offers


@dataclass(frozen=True)
class Easy:
    """The rule as a policy: it offers only what starts now, so that any executor starts just that."""

    belief: Belief = "limit"

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        order = np.arange(len(moment.queue))
        return Offers.of(starts(moment, order, moment.queue.may, self.belief, reservations=1))
