"""A Gaussian process over jobs and GPU types: fitting, prediction, and prediction with groups left out.

numpy alone; n is bounded by the caller, since time grows with n^3 and memory with n^2.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import Array, squared_distances
from slurmcast.probe.folds import folds
from slurmcast.probe.kernel import PRIOR, Inputs, Terms, loss_and_gradient, prior_means, variances
from slurmcast.probe.scatter import factors

REFIT_ROWS = 150
"""Examples by which the refits that calibrate intervals choose their parameters, drawn at random where there are more:
there are many refits. All are conditioned on."""
FIT_STEPS = 60
FIT_RATE = 0.15
RESTLESS = 3.0
"""A program whose left-out residuals are so many times others' is weighed down, or its noise would be all programs'."""
ROUNDS = 3
"""Fits at most. In the first, part of restless programs' noise is all programs', by which they stand out less."""
OUTLIER = 3.0
"""Left-out residuals of more spreads than this count as outliers: their noise is raised until they are within."""


class Process:
    """A process conditioned on examples. ``predict`` gives Gaussian means and standard deviations of new runs."""

    def __init__(self, theta: Array, inputs: Inputs, targets: Array, runs: Array) -> None:
        """``targets`` (n,): what was measured; ``runs`` (n,): how many runs each is the mean of (fewer than one where
        the example is an outlier)."""
        self.theta, self.inputs, self.targets, self.runs = theta, inputs, targets, runs
        self.mean = float(np.average(targets, weights=runs))

    @cached_property
    def _noise(self) -> float:
        return float(np.exp(2 * self.theta[list(PRIOR).index("noise")]))

    @cached_property
    def _inverse(self) -> Array:
        covariance = Terms(self.theta, self.inputs, self.inputs).covariance()
        return np.asarray(np.linalg.inv(covariance + np.diag(self._noise / self.runs)))

    @cached_property
    def _alpha(self) -> Array:
        return np.asarray(self._inverse @ (self.targets - self.mean))

    def predict(self, inputs: Inputs) -> tuple[Array, Array]:
        """Means and standard deviations of one run of each job, each of shape (len(inputs),)."""
        between = Terms(self.theta, inputs, self.inputs).covariance()
        explained = ((between @ self._inverse) * between).sum(axis=1)
        variance = np.maximum(variances(self.theta, inputs) - explained, 0.0) + self._noise
        return self.mean + between @ self._alpha, np.sqrt(variance)

    def left_out(
        self, groups: Sequence[Hashable], asked: Inputs | None = None, only: NDArray[np.bool_] | None = None
    ) -> tuple[Array, Array]:
        """What :meth:`predict` would give for each example if its whole group weren't among the examples, (n,) each.

        ``asked`` (as long as the examples): what the job would look like then; by default the same. ``only``: mask of
        the examples that are wanted, made of whole groups; the others are NaN. Exact for given parameters, by the
        inverse of a block (Rasmussen and Williams, appendix A.3): no fit per group is needed.
        """
        members: dict[Hashable, list[int]] = {}
        for index, group in enumerate(groups):
            if only is None or only[index]:
                members.setdefault(group, []).append(index)
        means, spreads = np.full(len(groups), np.nan), np.full(len(groups), np.nan)
        inputs = self.inputs if asked is None else asked
        prior = variances(self.theta, inputs)
        for out in members.values():
            between = Terms(self.theta, inputs.take(np.array(out)), self.inputs).covariance()
            between[:, out] = 0
            columns = self._inverse[:, out]
            block = np.linalg.inv(columns[out])
            alpha = self._alpha - columns @ (self.targets[out] - self.mean)
            means[out] = self.mean + between @ (alpha - columns @ (block @ alpha[out]))
            across = between @ columns
            explained = ((between @ self._inverse) * between).sum(axis=1) - ((across @ block) * across).sum(axis=1)
            spreads[out] = np.sqrt(np.maximum(prior[out] - explained, 0.0) + self._noise)
        return means, spreads


@dataclass(frozen=True)
class CrossFit:
    """A process with its parameters found anew for each fold, from other folds' examples: what is predicted for an
    example then owes nothing to it, not even the parameters."""

    fold: NDArray[np.int64]
    """The fold of each example, of shape (n,)."""
    processes: tuple[Process, ...]
    """By fold."""

    def left_out(self, groups: Sequence[Hashable], asked: Inputs) -> tuple[Array, Array]:
        """See :meth:`Process.left_out`; groups lie within folds."""
        means, spreads = np.empty(len(groups)), np.empty(len(groups))
        for number, process in enumerate(self.processes):
            index = self.fold == number
            found = process.left_out(groups, asked, index)
            means[index], spreads[index] = found[0][index], found[1][index]
        return means, spreads


def cross_fit(process: Process, groups: Sequence[Hashable], seed: int) -> CrossFit:
    """Refit ``process`` in :func:`folds` of ``groups``. Deterministic by ``seed``."""
    rng = np.random.default_rng(seed)
    fold = folds(groups, rng)

    def refit(out: int) -> Process:
        others = np.flatnonzero(fold != out)
        if len(others) > REFIT_ROWS:
            others = np.sort(rng.choice(others, REFIT_ROWS, replace=False))
        theta = _climb(process.inputs.take(others), process.targets[others], process.runs[others])
        return Process(theta, process.inputs, process.targets, process.runs)

    return CrossFit(fold, tuple(refit(out) for out in range(int(fold.max()) + 1)))


def fit(inputs: Inputs, targets: Array, runs: Array, programs: Sequence[int], weights: Array) -> Process:
    """The process whose parameters have the highest posterior, restless ``programs`` (n,) and outliers weighed down.
    ``weights`` (n,): see :func:`slurmcast.probe.scatter.factors`. Deterministic."""
    for more in reversed(range(ROUNDS)):
        process = Process(_climb(inputs, targets, runs), inputs, targets, runs)
        means, spreads = process.left_out(range(len(inputs)))
        by_program, _ = factors((targets - means) / spreads, programs, range(len(inputs)), weights)
        times = np.array([by_program[program] for program in programs])
        if not more or times.max() < RESTLESS:
            break
        runs = runs / np.where(times < RESTLESS, 1.0, times) ** 2
    excess = np.abs(targets - means) / (OUTLIER * spreads)
    return Process(process.theta, inputs, targets, runs / np.maximum(excess, 1) ** 2)


def _climb(inputs: Inputs, targets: Array, runs: Array) -> Array:
    """Parameters by Adam (Kingma and Ba, 2015) with a rate that falls to zero."""
    squared = squared_distances(inputs.vectors, inputs.vectors)
    centred = targets - np.average(targets, weights=runs)
    theta = prior_means(inputs.rows.shape[1], inputs.shared)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, FIT_STEPS + 1):
        _, gradient = loss_and_gradient(theta, inputs, squared, centred, runs)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        rate = FIT_RATE * (1 - (step - 1) / FIT_STEPS)
        theta = theta - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return theta
