"""How much more or less a program's runs scatter than those of other programs.

One noise for all programs makes intervals too narrow where times wander (early stopping, a shared disk) and too wide
for calm programs, though in sum they hold. So each program has a factor of its own, from its left-out residuals, drawn
to one where these are few: a variance under a scaled inverse chi-square prior (Gelman et al. 2013, Bayesian Data
Analysis, section 2.6).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np

from slurmcast.probe.features import Array

PRIOR = 4
"""So many observations weighs the prior, that a program is like the others."""
MEDIAN_SQUARE = NormalDist().inv_cdf(0.75) ** 2
"""Median of the square of what is normally distributed with a variance of one."""
LEAST = 1e-12
"""A mean square that is rounding."""
MOST = 5.0
"""No observation counts for more than so many times its program's median: a run that went astray isn't its nature."""


def factors(
    residuals: Array, programs: Sequence[int], groups: Sequence[Hashable], weights: Array
) -> tuple[dict[int, float], Array]:
    """The factor of each program; and for each of the ``residuals`` (n,) its program's factor without its group, (n,).

    Residuals of one group are one observation together; NaN are passed over, and what has none has a factor of one.
    ``weights`` (n,): how much each counts in what is usual (:mod:`slurmcast.probe.fair_share`).
    """
    known = np.flatnonzero(np.isfinite(residuals)).tolist()
    members: dict[int, dict[Hashable, list[int]]] = {}
    for i in known:
        members.setdefault(programs[i], {}).setdefault(groups[i], []).append(i)
    squares = {
        program: np.array([np.mean(residuals[indexes] ** 2) for indexes in of.values()])
        for program, of in members.items()
    }
    usual = _usual([float(of.mean()) for of in squares.values()], residuals[known] ** 2, weights[known])
    by_program, without = {}, np.ones(len(residuals))
    for program, of in members.items():
        relative = squares[program] / usual
        by_program[program] = _factor(relative)
        for place, indexes in enumerate(of.values()):
            without[indexes] = _factor(np.delete(relative, place))
    return by_program, without


def _usual(of_programs: Sequence[float], squares: Array, weights: Array) -> float:
    """The mean square that is usual: the larger one of two medians, of programs and of residuals. Many tiny programs
    that always take a second, or many such runs of one, mustn't make all others look restless."""
    if not of_programs:
        return 1.0
    order = np.argsort(squares)
    middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return max(float(np.median(of_programs)), float(squares[order][middle]) / MEDIAN_SQUARE, LEAST)


def _factor(squares: Array) -> float:
    """From observed ``squares`` (k,), in units of what is usual, and the prior's, which are ones."""
    most = MOST**2 * np.median(np.concatenate([np.ones(PRIOR), squares]))
    return float(np.sqrt((PRIOR + np.minimum(squares, most).sum()) / (PRIOR + len(squares))))
