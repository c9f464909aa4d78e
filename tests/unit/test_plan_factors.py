"""From an order to site factors with as few changes as possible."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.agent.factors import ROOM, spread

# case: (order, present factors, band, jobs that get another factor)
CASES: dict[str, tuple[list[int], dict[int, int], int, set[int]]] = {
    "none yet": ([1, 2, 3], {}, 100, {1, 2, 3}),
    "in order": ([1, 2, 3], {1: 90, 2: 50, 3: 10}, 100, set()),
    "one out of order": ([1, 2, 3, 4], {1: 90, 2: 5, 3: 50, 4: 10}, 100, {2}),
    "a newcomer": ([1, 9, 2], {1: 90, 2: 50}, 100, {9}),
    "a newcomer at the top": ([9, 1, 2], {1: 90, 2: 50}, 100, {9}),
    "a newcomer at the end": ([1, 2, 9], {1: 90, 2: 50}, 100, {9}),
    "equal factors": ([1, 2], {1: 50, 2: 50}, 100, {2}),
    "no room: the neighbour moves too": ([1, 9, 2], {1: 51, 2: 50}, 90, {1, 9}),
    "nor where the neighbour was": ([1, 2, 9, 3, 4], {1: 90, 2: 51, 3: 50, 4: 10}, 100, {2, 9}),
    "no room at the top": ([9, 1, 2], {1: 100, 2: 50}, 100, {9, 1}),
    "out of the band": ([1, 2], {1: 500, 2: 50}, 100, {1}),
    "negative": ([1, 2], {1: 50, 2: -7}, 100, {2}),
}


@pytest.mark.parametrize("case", CASES)
def test_changes(case: str) -> None:
    order, current, band, changed = CASES[case]
    factors = dict(zip(order, spread([current.get(job, 0) for job in order], band), strict=True))
    assert {job for job in order if factors[job] != current.get(job)} == changed
    assert all(a > b for a, b in pairwise(factors[job] for job in order))


@given(st.lists(st.integers(-5, 60), max_size=24), st.integers(1, 100))
def test_always_in_order_and_in_the_band(current: list[int], band: int) -> None:
    factors = spread(current, band)
    assert len(factors) == len(current)
    assert all(a >= b for a, b in pairwise(factors))
    assert all(0 < factor <= band for factor in factors)
    assert max(Counter(factors).values(), default=0) <= max(1, ceil(ROOM * len(current) / band))
    assert spread(factors, band) == factors


@pytest.mark.parametrize(("jobs", "band"), [(1000, 10_000), (10_000, 10_000), (30_000, 10_000)])
def test_who_stays_keeps_its_factor(jobs: int, band: int) -> None:
    """Cycle after cycle 1 % of the jobs come anywhere, and 1 % go from the top: hardly any other job changes."""
    rng, order = random.Random(jobs), list(range(jobs))
    factors = dict(zip(order, spread([0] * jobs, band), strict=True))
    new = jobs // 100
    changed = []
    for cycle in range(1, 6):
        order = order[new:]
        for job in range(cycle * jobs, cycle * jobs + new):
            order.insert(rng.randrange(len(order)), job)
        after = dict(zip(order, spread([factors.get(job, 0) for job in order], band), strict=True))
        changed.append(sum(after[job] != factors.get(job) for job in order))
        factors = after
    assert max(changed) <= 1.5 * new


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0], ids=["first", "middle", "last"])
def test_a_crowd_in_one_place(place: float) -> None:
    """All newcomers at one place is the worst case: still most jobs keep their factors, taking all cycles together."""
    jobs, new, cycles = 1000, 10, 100
    order = list(range(jobs))
    factors = dict(zip(order, spread([0] * jobs, 10_000), strict=True))
    changed = 0
    for cycle in range(1, cycles + 1):
        at = int(place * len(order))
        order[at:at] = range(cycle * jobs, cycle * jobs + new)
        after = dict(zip(order, spread([factors.get(job, 0) for job in order], 10_000), strict=True))
        changed += sum(after[job] != factors.get(job) for job in order)
        factors = after
    assert changed < 0.25 * cycles * jobs


def test_no_jobs() -> None:
    assert spread([], 100) == []
