"""When two times agree, and how many runs are still wanted."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.label.judge import agree, judge

TIMES = st.lists(st.integers(0, 10_000).map(float), max_size=6)


@pytest.mark.parametrize(
    ("first", "second", "close"),
    [
        (100, 100, True),
        (95, 105, False),  # exactly 10 % of the mean
        (95.5, 105, True),
        (105, 95.5, True),
        (1000, 1100, True),  # 9.52 % of their mean
        (1000, 1110, False),
        (3, 4, True),  # a second apart: the clock may be to blame
        (3, 5, False),
        (0, 1, True),
        (0, 0, True),
        (0, 2, False),
    ],
)
def test_two_times_agree_within_a_tenth_or_a_second(first: float, second: float, close: bool) -> None:
    assert agree(first, second) is close


@pytest.mark.parametrize(
    ("times", "least", "most", "accepted", "more", "mean"),
    [
        ([], 2, 3, False, 2, None),
        ([50], 2, 3, False, 1, None),
        ([50, 52], 2, 3, True, 0, 51),
        ([50, 60], 2, 3, False, 1, 55),
        ([50, 60, 59], 2, 3, True, 0, 59.5),
        ([50, 60, 80], 2, 3, False, 0, 55),  # the closest pair, for want of a better one
        ([50, 60, 80], 2, 4, False, 1, 55),
        ([50, 60], 2, 2, False, 0, 55),
        ([50, 50], 3, 3, True, 1, 50),
        ([50], 4, 5, False, 3, None),
        ([50, 60, 70], 4, 5, False, 1, 65),
    ],
)
def test_the_runs_of_a_script(
    times: list[float], least: int, most: int, accepted: bool, more: int, mean: float | None
) -> None:
    found = judge(times, least, most)
    assert (found.accepted, found.more, found.mean_s) == (accepted, more, mean)


@pytest.mark.parametrize(("times", "resolved"), [([5, 5], False), ([10, 10], False), ([11, 11], True), ([4, 9], False)])
def test_says_where_whole_seconds_are_too_coarse(times: list[float], resolved: bool) -> None:
    assert judge(times, 2, 3).resolved is resolved


@settings(deadline=None)
@given(TIMES, st.integers(2, 5), st.integers(0, 3))
def test_never_more_than_the_most(times: list[float], least: int, further: int) -> None:
    most = least + further
    found = judge(times, least, most)
    assert len(times) + found.more <= max(most, len(times))
    if len(times) >= 2:
        assert found.accepted == any(agree(*pair) for pair in combinations(times, 2))


@settings(deadline=None)
@given(st.data(), st.integers(2, 4), st.integers(0, 3))
def test_run_after_run_comes_to_an_end(data: st.DataObject, least: int, further: int) -> None:
    times: list[float] = []
    while more := judge(times, least, least + further).more:
        times += data.draw(st.lists(st.integers(0, 1000).map(float), min_size=more, max_size=more))
    assert least <= len(times) <= least + further
    assert judge(times, least, least + further).accepted or len(times) == least + further
