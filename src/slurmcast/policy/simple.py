"""The Simple rule of the paper (section 2.2, figure 4): first come, first served, on the most powerful type that has
room. Who doesn't fit anywhere blocks all behind it."""

from __future__ import annotations

import numpy as np

from slurmcast.policy.base import Moment, Offers


def simple(moment: Moment) -> Offers:
    """Jobs by submission, each with its types as the cluster lists them, the most powerful first."""
    jobs, types = np.nonzero(moment.queue.may)
    return Offers(jobs, types, in_order=True)
