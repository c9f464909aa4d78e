"""How offers become starts."""

from __future__ import annotations

import numpy as np

from slurmcast.policy.base import Moment, Offers


def skip(moment: Moment, offers: Offers) -> list[tuple[int, int]]:
    """The paper's: take the pairs in their order, each job once, and pass over what doesn't fit (Algorithm 2). Offers
    that are ``in_order`` end at the first job none of whose pairs fits (Algorithm 1, the Simple rule).

    The same as :func:`slurmcast.policy.value.assign` on nodes as large as a whole type.
    """
    needed = moment.queue.gpus[offers.jobs, offers.types]
    fits = needed <= moment.free[offers.types]
    upto = len(fits)
    if offers.in_order:
        stuck = np.flatnonzero(np.bincount(offers.jobs, fits, len(moment.queue))[offers.jobs] == 0)
        upto = int(stuck[0]) if len(stuck) else upto
    free = moment.free.tolist()
    starts: dict[int, int] = {}
    chosen = np.flatnonzero(fits[:upto])
    blocked: int | None = None
    for job, kind, gpus in zip(
        offers.jobs[chosen].tolist(), offers.types[chosen].tolist(), needed[chosen].tolist(), strict=True
    ):
        if job in starts:
            continue
        if blocked is not None and job != blocked:
            break
        if gpus <= free[kind]:
            free[kind] -= gpus
            starts[job] = kind
            blocked = None
        elif offers.in_order:
            blocked = job
    return list(starts.items())
