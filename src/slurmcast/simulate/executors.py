"""How offers become starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmcast.policy import backfill
from slurmcast.policy.base import Moment, Offers
from slurmcast.policy.placement import settle
from slurmcast.simulate.engine import Executor


def start_by_skipping(moment: Moment, offers: Offers) -> list[tuple[int, int]]:
    """The paper's: take the pairs in their order, each job once, and pass over what doesn't fit (Algorithm 2). Offers
    that are ``in_order`` end at the first job none of whose pairs fits (Algorithm 1, the Simple rule).

    The same as :func:`slurmcast.policy.placement.assign` on nodes as large as a whole type.
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
    least = needed[chosen].min(initial=np.inf)
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
            if max(free) < least:
                break
        elif offers.in_order:
            blocked = job
    return list(starts.items())


BF_MAX_JOB_TEST = 500
"""Slurm's default: so many jobs that can't start are given a reservation."""


def start_as_slurm(moment: Moment, offers: Offers) -> list[tuple[int, int]]:
    """Slurm's: each job waits on one partition and has its place in the line, as :func:`ordered` has it.

    The main scheduler starts jobs along the line until one of the partition doesn't fit, sched/backfill those behind
    that end, by their time limits, before the reserved start of any job ahead (https://slurm.schedmd.com/sched_config.html).
    Both run at once at every event; bf_resolution, bf_window, intervals and borders of nodes are left out.
    """
    settled = ordered(moment, offers)
    here = np.zeros_like(moment.queue.may)
    here[settled.jobs, settled.types] = True
    return backfill.starts(moment, settled.jobs, here, "limit", BF_MAX_JOB_TEST)


def ordered(moment: Moment, offers: Offers) -> Offers:
    """What the agent makes of offers: one pair for each job, in line."""
    return settle(offers, len(moment.queue), dict(start_by_skipping(moment, replace(offers, in_order=False))))


skip = Executor(start_by_skipping)
"""The paper's."""
slurm = Executor(start_as_slurm)
"""Slurm's with an agent that looks at every event."""
agent = Executor(start_as_slurm, ordered, period_s=30.0)
"""Slurm's with an agent that looks when jobs arrive and every 30 s, the default."""

EXECUTORS = {"skip": skip, "slurm": slurm, "agent": agent}
"""By the names that commands take."""


def known(name: str) -> str:
    """``name``, of an executor. Raises ValueError with the names that there are."""
    if name not in EXECUTORS:
        raise ValueError(f"there is no executor {name!r}; there are: {', '.join(EXECUTORS)}")
    return name
