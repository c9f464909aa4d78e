"""From offers to what Slurm understands: one type for each job, and one order. Shared by the agent and the simulator.

Shapes: n jobs, p offered pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from slurmcast.policy.base import Ints, Mask, Offers


def assign(offers: Offers, take: Callable[[int, int], bool]) -> dict[int, int]:
    """Take the pairs (i, j) in their order, each job once: job -> type of those that fit now.

    ``take(i, j)`` uses up room where there is enough and says whether there was.
    """
    assigned: dict[int, int] = {}
    for job, kind in zip(offers.jobs.tolist(), offers.types.tolist(), strict=True):
        if job not in assigned and take(job, kind):
            assigned[job] = kind
    return assigned


def first_choice(offers: Offers, count: int) -> Ints:
    """The type of each job's first pair, (n,): where it waits; -1 where nothing is offered."""
    result = np.full(count, -1, np.int64)
    result[offers.jobs[::-1]] = offers.types[::-1]
    return result


def settle(offers: Offers, count: int, assigned: Mapping[int, int]) -> Offers:
    """One pair for each job that is offered, in line: where it fits now, else where it waits. Settled offers stay as
    they are."""
    types, fits = first_choice(offers, count), np.zeros(count, bool)
    types[list(assigned)] = list(assigned.values())
    fits[list(assigned)] = True
    line = in_line(offers, types, fits)
    line = line[types[line] >= 0]
    return Offers(line, types[line], in_order=True)


def in_line(offers: Offers, types: Ints, fits: Mask) -> Ints:
    """The jobs, most urgent first, (n,), by the places of their pairs; ``types`` (n,) has each one's.

    Those that fit now, ``fits`` (n,), stand above the others, since Slurm keeps GPUs for the first that doesn't fit;
    but not where the offers are ``in_order``. A job whose pair isn't offered goes by its first one, or comes last.
    """
    count, last = len(types), len(offers.jobs)
    first = np.full(count, last)
    first[offers.jobs[::-1]] = np.arange(last)[::-1]
    if offers.in_order:
        return np.argsort(first, kind="stable")
    chosen = types[offers.jobs] == offers.types
    place = first
    place[offers.jobs[chosen]] = np.flatnonzero(chosen)
    return np.lexsort((place, ~fits))
