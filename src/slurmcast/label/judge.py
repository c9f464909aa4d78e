"""When the times of a script's runs can be trusted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

TOLERANCE = 0.1
"""Two times that differ by less than this share of their mean agree (arXiv 2608.18503, A.2)."""
RESOLUTION_S = 1.0
"""Slurm's accounting counts whole seconds: two equal runs may differ by one."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the runs of one script on one partition say. Times in seconds."""

    mean_s: float | None
    """Of the closest pair; None with less than two runs."""
    difference: float | None
    """Of the same pair, as a share of its mean."""
    accepted: bool
    resolved: bool
    """False where a second is more than the tolerance: such short runs agree for want of a finer clock."""
    more: int
    """Runs that are still wanted."""


def judge(times_s: Sequence[float], least: int, most: int) -> Judgement:
    """Judge complete runs, of which at least ``least`` and at most ``most`` are wanted.

    The closest of all pairs counts, the earlier one among equals. Where it doesn't agree one more run is wanted, until
    there are ``most``; then the pair stands, but isn't accepted.
    """
    if len(times_s) < 2:
        return Judgement(None, None, False, False, max(least, 2) - len(times_s))
    first, second = min(combinations(times_s, 2), key=lambda pair: _difference(*pair))
    mean = (first + second) / 2
    accepted = agree(first, second)
    missing = max(least - len(times_s), 0)
    more = missing if accepted or missing else int(len(times_s) < most)
    return Judgement(mean, _difference(first, second), accepted, mean * TOLERANCE > RESOLUTION_S, more)


def agree(first_s: float, second_s: float) -> bool:
    """Whether two times are close enough, as far as a clock of whole seconds can tell."""
    return abs(first_s - second_s) <= RESOLUTION_S or _difference(first_s, second_s) < TOLERANCE


def _difference(first_s: float, second_s: float) -> float:
    mean = (first_s + second_s) / 2
    return abs(first_s - second_s) / mean if mean > 0 else 0.0
