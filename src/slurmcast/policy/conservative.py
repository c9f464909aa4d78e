"""Conservative backfilling: first come, first served; every job that can't start reserves, and later ones may start if
they delay none of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.backfill import Belief, starts
from slurmcast.policy.base import Moment, Offers


@dataclass(frozen=True)
class Conservative:
    """The rule as a policy: it offers only what starts now. Reservations are made anew each time, as in Slurm."""

    belief: Belief = "limit"

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        return Offers.of(starts(moment, np.arange(len(moment.queue)), moment.queue.may, self.belief))
