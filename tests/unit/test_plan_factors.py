"""From an order to site factors with as few changes as possible."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.agent.factors import spread

# case: (order, present factors, band, jobs that get another factor)
CASES: dict[str, tuple[list[int], dict[int, int], int, set[int]]] = {
    "none yet": ([1, 2, 3], {}, 100, {1, 2, 3}),
    "in order": ([1, 2, 3], {1: 90, 2: 50, 3: 10}, 100, set()),
    "one out of order": ([1, 2, 3, 4], {1: 90, 2: 5, 3: 50, 4: 10}, 100, {2}),
    "a newcomer": ([1, 9, 2], {1: 90, 2: 50}, 100, {9}),
    "a newcomer at the top": ([9, 1, 2], {1: 90, 2: 50}, 100, {9}),
    "a newcomer at the end": ([1, 2, 9], {1: 90, 2: 50}, 100, {9}),
    "equal factors": ([1, 2], {1: 50, 2: 50}, 100, {1}),
    "no room: all anew": ([1, 9, 2], {1: 51, 2: 50}, 90, {1, 2, 9}),
    "out of the band": ([1, 2], {1: 500, 2: 50}, 100, {1}),
    "negative": ([1, 2], {1: 50, 2: -7}, 100, {2}),
}


@pytest.mark.parametrize("case", CASES)
def test_changes(case: str) -> None:
    order, current, band, changed = CASES[case]
    factors = dict(zip(order, spread([current.get(job, 0) for job in order], band), strict=True))
    assert {job for job in order if factors[job] != current.get(job)} == changed
    assert all(a > b for a, b in pairwise(factors[job] for job in order))


@given(st.lists(st.integers(-5, 60), max_size=12), st.integers(20, 60))
def test_always_in_order_and_in_the_band(current: list[int], band: int) -> None:
    factors = spread(current, band)
    assert len(factors) == len(current)
    assert all(a > b for a, b in pairwise(factors))
    assert all(0 < factor <= band for factor in factors)


def test_more_jobs_than_numbers() -> None:
    factors = spread([0] * 50, 10)
    assert all(a >= b for a, b in pairwise(factors))
    assert {min(factors), max(factors)} == {1, 10}


def test_no_jobs() -> None:
    assert spread([], 100) == []
