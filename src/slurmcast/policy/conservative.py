"""Conservative backfilling: first come, first served; every job that can't start reserves, and later ones may start if
they delay none of them."""

from __future__ import annotations

import numpy as np

from slurmcast.policy.backfill import starts
from slurmcast.policy.base import Moment, Offers


def conservative(moment: Moment) -> Offers:
    """The rule as a policy: it offers only what starts now. Reservations are made anew each time, as in Slurm."""
    return Offers.of(starts(moment, np.arange(len(moment.queue)), moment.queue.may, "limit"))
