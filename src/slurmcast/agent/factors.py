"""From an order to site factors, with as few changes as possible. Pure.

Slurm sorts by priority, to which the site factor adds; only the order matters to us, not the numbers. So the jobs whose
present factors already stand in the wanted order keep them, and each other job gets a number in its gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise


def spread(current: Sequence[int], band: int) -> list[int]:
    """Site factors for n jobs, most urgent first: all within [1, band], and falling strictly.

    ``current``: the factors that they have now; 0: none was ever set. With more jobs than the band has numbers,
    neighbours share one.
    """
    count = len(current)
    factors = [0] * count
    kept = _longest_falling(current, band)
    for (left, high), (right, low) in pairwise([(-1, band + 1), *kept, (count, 0)]):
        gap = right - left
        if gap > max(high - low, 1):
            return [max(1, band - band * n // (count + 1)) for n in range(count)]
        factors[left + 1 : right] = [high - (high - low) * step // gap for step in range(1, gap)]
    for place, factor in kept:
        factors[place] = factor
    return factors


def _longest_falling(factors: Sequence[int], band: int) -> list[tuple[int, int]]:
    """The longest strictly falling subsequence of those within [1, band], as (place, factor), by patience sorting."""
    tails: list[int] = []  # negated factors, rising
    piles: list[int] = []  # the place of each pile's last
    before = [-1] * len(factors)
    for place, factor in enumerate(factors):
        if not 0 < factor <= band:
            continue
        pile = bisect_left(tails, -factor)
        before[place] = piles[pile - 1] if pile else -1
        if pile == len(tails):
            tails.append(-factor)
            piles.append(place)
        else:
            tails[pile], piles[pile] = -factor, place
    chain: list[tuple[int, int]] = []
    place = piles[-1] if piles else -1
    while place >= 0:
        chain.append((place, factors[place]))
        place = before[place]
    return chain[::-1]
