"""Windows over long texts, and batches by length."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from slurmcast.encoder.windows import batches, head_and_tail, windows


@pytest.mark.parametrize("length", [0, 1, 126, 127, 256, 1500, 20_000])
def test_windows_cover_each_token(length: int) -> None:
    spans = windows(length, 126, 16)
    assert {n for start, end in spans for n in range(start, end)} == set(range(length))
    assert all(end - start <= 126 for start, end in spans)
    assert all(after[0] <= before[1] - 16 for before, after in pairwise(spans))


def test_windows_by_hand() -> None:
    assert windows(10, 10, 2) == [(0, 10)]
    assert windows(21, 10, 2) == [(0, 10), (8, 18), (11, 21)]


def test_long_texts_keep_head_and_tail(caplog: pytest.LogCaptureFixture) -> None:
    spans = windows(1000, 10, 2)
    with caplog.at_level(logging.WARNING):
        assert head_and_tail(spans[:5], 5) == spans[:5]
        assert not caplog.records
        assert head_and_tail(spans, 5) == spans[:2] + spans[-3:]
    assert f"the {spans[-3][0] - spans[1][1]} in its middle are not read" in caplog.text


@pytest.mark.parametrize(
    ("lengths", "tokens", "expected"),
    [
        ([], 10, []),
        ([3, 5, 4], 1, [[1], [2], [0]]),
        ([3, 5, 4], 10, [[1, 2], [0]]),
        ([3, 5, 4], 15, [[1, 2, 0]]),
        ([2, 9, 2, 2, 2, 2], 8, [[1], [0, 2, 3, 4], [5]]),
    ],
)
def test_batches_are_bounded_with_their_padding(lengths: list[int], tokens: int, expected: list[list[int]]) -> None:
    assert batches(lengths, tokens) == expected
