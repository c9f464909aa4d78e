"""Texts longer than what a model reads at a time: overlapping windows, and batches of sequences of like length."""

from __future__ import annotations

import logging
from collections.abc import Sequence

log = logging.getLogger(__name__)

Span = tuple[int, int]


def windows(length: int, size: int, overlap: int) -> list[Span]:
    """(start, end) of the windows of at most ``size`` tokens that cover a text of ``length``.

    Each shares ``overlap`` tokens or more with the one before, so that no line is only ever seen cut in two. There is
    one window at least, so that an empty text has a vector.
    """
    last = max(length - size, 0)
    return [(start, min(start + size, length)) for start in [*range(0, last, size - overlap), last]]


def head_and_tail(spans: list[Span], most: int) -> list[Span]:
    """At most ``most`` (two or more) of ``spans``: half from the head, half from the tail; a warning says what is left
    out."""
    if len(spans) <= most:
        return spans
    head, tail = spans[: most // 2], spans[most // 2 - most :]
    left_out = tail[0][0] - head[-1][1]
    log.warning("a text of %d tokens is too long: the %d in its middle are not read", spans[-1][1], left_out)
    return head + tail


def batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indexes into ``lengths`` of the sequences that run together, the longest first.

    A batch, padded to its longest sequence, holds at most ``tokens``, or a single sequence.
    """
    result: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if not result or longest * (len(result[-1]) + 1) > tokens:
            result.append([])
            longest = lengths[index]
        result[-1].append(index)
    return result
