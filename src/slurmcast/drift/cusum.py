"""A sequential test: has a mean risen above what was promised? Pure.

It is looked at after each job, for months. A test of fixed level, asked again and again, is certain to raise a false
alarm some day; a CUSUM (Page 1954, "Continuous inspection schemes") is made for it: its threshold sets how many
observations pass on average until a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Where the sum stands."""

    now: float
    """0 where nothing speaks for a rise."""
    crossed: int | None
    """Index of the first observation at which it reached the threshold, None where it never did."""
    rose: int
    """Index of the first observation of the rise that crossed, or of the one that goes on: before it the sum was 0. The
    most likely moment of the change (Page 1954)."""


def cusum(values: Iterable[float], promised: float, risen: float, threshold: float) -> Level:
    """The CUSUM of ``values``, each from 0 to 1, whose mean is promised to be at most ``promised``.

    Each value x adds log(1 + bet (x - promised)), but the sum never falls below 0. For values of 0 and 1 that is the
    log-likelihood ratio of a mean of ``risen`` to one of ``promised``, and no test finds that rise sooner for as few
    false alarms (Lorden 1971, "Procedures for reacting to a change in distribution"; Moustakides 1986). Shares in
    between are fine too: while the promise holds, the factor's mean is at most 1.
    """
    bet = (risen - promised) / (promised * (1 - promised))
    level, crossed, rose = 0.0, None, 0
    for index, value in enumerate(values):
        level = max(0.0, level + math.log1p(bet * (value - promised)))
        if crossed is None and level >= threshold:
            crossed = index
        if crossed is None and level == 0:
            rose = index + 1
    return Level(level, crossed, rose)


def threshold(promised: float, risen: float, observations: float) -> float:
    """The threshold that is reached after about as many ``observations`` on average while the mean is ``promised``.

    By Wald's approximation, (exp(h) - h - 1) / K for a drift of -K (Siegmund 1985, "Sequential analysis", section
    II.6). It leaves out by how much the threshold is passed, so that false alarms are somewhat rarer than that.
    """
    drift = -promised * math.log(risen / promised) - (1 - promised) * math.log((1 - risen) / (1 - promised))
    height = 1.0
    for _ in range(50):  # a contraction: a dozen rounds are enough
        height = math.log(observations * drift + height + 1)
    return height
