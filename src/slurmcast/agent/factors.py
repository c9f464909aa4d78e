"""From an order to site factors, with few changes. Pure.

Slurm sorts by priority, to which the site factor adds; only the order matters to us, not the numbers. So the jobs whose
present factors already stand in the wanted order keep them, and each other job gets a number in its gap. Where a gap
has too few, the jobs around it get new ones too: as few as leave room for those that come next (a sparse table: Itai,
Konheim and Rodeh 1981, "A sparse table implementation of priority queues").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby, pairwise
from math import ceil
from operator import itemgetter

Placed = tuple[int, int]
"""The place of a job in the order, and its number."""
ROOM = 4
"""Numbers to a job: with fewer, newcomers find no gap between their neighbours, and nearly all jobs change."""


def spread(current: Sequence[int], band: int) -> list[int]:
    """Site factors for n jobs, most urgent first: all within [1, band], and falling.

    ``current``: the factors that they have now; 0: none was ever set. They fall strictly while the band has ``ROOM``
    numbers to each job; with more jobs, as few neighbours share one as that takes.
    """
    count = len(current)
    share = max(1, ceil(ROOM * count / band))  # each factor stands for so many numbers of a finer scale
    chain = _apart(_longest_falling(current, band), share)
    kept = _with_room([(-1, band * share + 1), *chain, (count, 0)], count)
    numbers = [0] * (count + 1)
    for (left, high), (right, low) in pairwise(kept):
        numbers[left + 1 : right + 1] = [high - (high - low) * n // (right - left) for n in range(1, right - left + 1)]
    return [ceil(number / share) for number in numbers[:count]]


def _longest_falling(factors: Sequence[int], band: int) -> list[Placed]:
    """The longest subsequence of those within [1, band] that never rises, by patience sorting."""
    tails: list[int] = []  # negated factors, never falling
    piles: list[int] = []  # the place of each pile's last
    before = [-1] * len(factors)
    for place, factor in enumerate(factors):
        if not 0 < factor <= band:
            continue
        pile = bisect_right(tails, -factor)
        before[place] = piles[pile - 1] if pile else -1
        if pile == len(tails):
            tails.append(-factor)
            piles.append(place)
        else:
            tails[pile], piles[pile] = -factor, place
    chain: list[Placed] = []
    place = piles[-1] if piles else -1
    while place >= 0:
        chain.append((place, factors[place]))
        place = before[place]
    return chain[::-1]


def _apart(chain: Sequence[Placed], share: int) -> list[Placed]:
    """The chain on the finer scale, where it falls strictly: of equal factors the first ``share``, evenly."""
    apart = []
    for factor, equal in groupby(chain, itemgetter(1)):
        places = [place for place, _ in equal][:share]
        step = share / len(places)
        apart += [(place, factor * share - int((n + 0.5) * step)) for n, place in enumerate(places)]
    return apart


def _with_room(chain: Sequence[Placed], count: int) -> list[Placed]:
    """Those of the strictly falling chain that keep their numbers, its ends among them, so that between each two there
    are numbers enough for the jobs between them.

    Around a gap that is too narrow, neighbours are let go on both sides until g of the ``count`` jobs have 1 + g/count
    as many numbers: the more change, the longer it lasts.
    """
    kept, rest = [chain[0]], list(chain[:0:-1])
    while rest:
        if not _fits(kept[-1], rest[-1], 0.0):
            left = True
            while not _fits(kept[-1], rest[-1], 1 / count) and len(kept) + len(rest) > 2:
                side = kept if len(rest) == 1 or (left and len(kept) > 1) else rest
                side.pop()
                left = not left
        kept.append(rest.pop())
    return kept


def _fits(left: Placed, right: Placed, spare: float) -> bool:
    """Whether there are 1 + ``spare`` g numbers to each of the g jobs between the two."""
    jobs, numbers = right[0] - left[0] - 1, left[1] - right[1] - 1
    return numbers >= jobs * (1 + spare * jobs)
