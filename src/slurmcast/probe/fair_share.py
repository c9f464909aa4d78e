"""How much each user's jobs count beside others': who runs many doesn't speak for all.

What is told of new jobs should hold for everybody's, not only for those of whoever ran most. So where one owner's are
more than a third of what intervals are calibrated by, each of them counts for less (Barber, Candes, Ramdas, Tibshirani
2023, "Conformal prediction beyond exchangeability", on quantiles with fixed weights). And where places are few, nobody
is pushed out by one other. With a single owner nothing of this changes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=Hashable)

PARTS = 3
"""One owner counts for one part in so many at most. Then intervals of others' jobs that one narrows as far as he can
still hold for 1 - 0.2 / (1 - 1/3) = 70 % of them. Two owners count alike, and of three nobody for more than the other
two: a third at most would be the least of the three, whose few jobs would make everybody's intervals."""
PLACES = 0.5
"""Share of few places that one owner may have while others' wait. Not less: where one user runs most of a site's jobs,
most estimates are of his."""


@dataclass(frozen=True)
class Shares:
    """How much each of n observations counts, of shape (n,) each."""

    owners: NDArray[np.float64]
    """What the owner's observations are brought down by: 1, or less for one who has many."""
    weights: NDArray[np.float64]
    """The same, shared by the observations of a group, which are one together."""
    count: float
    """How many independent observations of equal weight tell as much (Kish 1965, Survey Sampling, section 11.7)."""


def shares(groups: Sequence[Hashable], owners: Sequence[Hashable], least: float) -> Shares:
    """How much observations of ``groups`` and ``owners``, (n,) each, count: all alike where fewer than ``least``
    independent ones would be left."""
    sizes = Counter(groups)
    each = np.array([1 / sizes[group] for group in groups])
    totals = _sums(owners, each)
    most = _most(totals)
    down = np.array([min(1.0, most / totals[owner]) for owner in owners])
    found = Shares(down, each * down, _count(groups, each * down))
    return found if found.count >= least else Shares(np.ones(len(each)), each, float(len(sizes)))


def allotted(wanted: Iterable[tuple[Hashable, Item]], places: int) -> list[Item]:
    """Which of the items get the ``places``, given with the owner for whom each would count, the most wanted first.

    No owner has more than :data:`PLACES` of them while others' wait. What several want has one place.
    """
    taken: dict[Item, None] = {}
    passed_over: dict[Item, None] = {}
    have: Counter[Hashable] = Counter()
    for owner, item in wanted:
        if item in taken:
            continue
        if have[owner] < PLACES * places:
            taken[item] = None
            have[owner] += 1
        else:
            passed_over[item] = None
    return list(taken | passed_over)[:places]


def _most(totals: dict[Hashable, float]) -> float:
    """What no owner may count for more than: one part in :data:`PARTS`, or in fewer, of what all then come to."""
    ranked = sorted(totals.values(), reverse=True)
    parts = min(PARTS, 1 + len(ranked) // 2)
    levels = (sum(ranked[above:]) / (parts - above) for above in range(parts))
    return next(level for above, level in enumerate(levels) if above == parts - 1 or ranked[above] <= level)


def _count(groups: Sequence[Hashable], weights: NDArray[np.float64]) -> float:
    of_groups = np.array(list(_sums(groups, weights).values()))
    return float(of_groups.sum() ** 2 / (of_groups**2).sum())


def _sums(names: Sequence[Hashable], values: NDArray[np.float64]) -> dict[Hashable, float]:
    found: dict[Hashable, float] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        found[name] = found.get(name, 0.0) + value
    return found
