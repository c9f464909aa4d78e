"""From an order to site factors, with as few changes as possible. Pure.

Slurm sorts by priority, to which the site factor adds; only the order matters to us, not the numbers. So the jobs whose
present factors already stand in the wanted order keep them, and each other job gets a number in its gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise


def spread(order: Sequence[int], current: Mapping[int, int], band: int) -> dict[int, int]:
    """Site factors, all within [1, band], that fall strictly along ``order`` (job ids, most urgent first).

    ``current``: the factors that jobs have now; 0 or absent: none was ever set. With more jobs than the band has
    numbers, neighbours share one.
    """
    kept = _longest_falling([(n, current.get(job, 0)) for n, job in enumerate(order)], band)
    factors: dict[int, int] = {order[n]: factor for n, factor in kept}
    anchors = [(-1, band + 1), *kept, (len(order), 0)]
    for (left, high), (right, low) in pairwise(anchors):
        count = right - left - 1
        if count and high - low - 1 < count:
            return _even(order, band)
        for step in range(1, count + 1):
            factors[order[left + step]] = high - (high - low) * step // (count + 1)
    return factors


def _even(order: Sequence[int], band: int) -> dict[int, int]:
    """All jobs spread anew over the band."""
    return {job: max(1, band - band * n // (len(order) + 1)) for n, job in enumerate(order)}


def _longest_falling(points: Sequence[tuple[int, int]], band: int) -> list[tuple[int, int]]:
    """The longest strictly falling subsequence of (position, factor) with 0 < factor <= band, by patience sorting."""
    tails: list[int] = []  # negated factors, rising
    piles: list[int] = []  # index into `points` of each pile's last
    before: dict[int, int | None] = {}
    for index, (_, factor) in enumerate(points):
        if not 0 < factor <= band:
            continue
        pile = bisect_left(tails, -factor)
        before[index] = piles[pile - 1] if pile else None
        if pile == len(tails):
            tails.append(-factor)
            piles.append(index)
        else:
            tails[pile], piles[pile] = -factor, index
    chain: list[tuple[int, int]] = []
    at: int | None = piles[-1] if piles else None
    while at is not None:
        chain.append(points[at])
        at = before[at]
    return chain[::-1]
