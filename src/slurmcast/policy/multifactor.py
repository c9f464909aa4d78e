"""Slurm's priority/multifactor with age and fairshare, and its backfill behind: what a site with users in mind has.

https://slurm.schedmd.com/priority_multifactor.html; fairshare is the classic factor 2 ** -(U / S) of
https://slurm.schedmd.com/classic_fair_share.html for users with equal shares and without accounts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.model import DAY_S
from slurmcast.policy.backfill import starts
from slurmcast.policy.base import Moment, Offers


@dataclass(frozen=True)
class Multifactor:
    """The rule as a policy: it offers only what starts now. Priorities are those of the moment, not minutes old."""

    age_weight: float = 1000.0
    fairshare_weight: float = 1000.0
    max_age_s: float = 7 * DAY_S
    """PriorityMaxAge, by Slurm's default."""

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`. Where users aren't known, only age counts."""
        queue = moment.queue
        priority = self.age_weight * np.minimum((moment.now_s - queue.submit_s) / self.max_age_s, 1.0)
        if queue.usage is not None:
            priority = priority + self.fairshare_weight * 2.0**-queue.usage
        return Offers.of(starts(moment, np.argsort(-priority, kind="stable"), queue.may, "limit"))
