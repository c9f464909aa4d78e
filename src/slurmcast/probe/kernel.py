"""The covariance of the Gaussian process behind ``size+ratio``, and the gradient of its likelihood.

Two jobs are alike as far as their scripts are (``S``), or are of one program (``P``), their numbers go the same way
(``L``, which makes logarithms linear in logarithms: time ~ epochs^w) and their numbers are near (``C``, for what isn't
linear), or they are the same work (``W``, 1 or 0):

    S = exp(-|x - x'|^2 / 2 reach^2)    L = sum_j w_j^2 z_j z'_j    C = exp(-sum_j w_j^2 (z_j - z'_j)^2 / 2 bend^2)
    P = exp(-|x - x'|^2 / 2 ONE_PROGRAM^2)

    size   = LEVEL^2 + script^2 S + L + slopes^2 S L + curves^2 S C + own^2 W
    ratio  = type^2 + type_script^2 P + type_slopes^2 L + type_curves^2 P C
    K      = size + [same GPU type] ratio

Terms with ``S`` belong to a script and its like, with ``P`` to a program, those without to all jobs: a script that has
run once takes its exponents from the others. Its ratio between types it takes from the types' average, not from other
programs: the ``reach`` that suits sizes may be too long to tell programs apart. What no number explains of a work is
its ``own``, and goes with it from type to type; noise doesn't. See Rasmussen and Williams, Gaussian
Processes for Machine Learning (2006), sections 2.2, 4.2 and 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import Array, squared_distances
from slurmcast.probe.territory import ONE_PROGRAM

SAME_WORK = 1e-9
"""Squared distance of vectors, and of columns times their exponents, that is mere rounding."""
LEVEL = 2.0
"""Prior standard deviation of the overall level around the examples' mean."""
PRIOR = {
    "script": 1.0,
    "reach": 0.4,
    "slopes": 0.4,
    "curves": 0.4,
    "bend": 1.0,
    "own": 0.15,
    "type": 0.7,
    "type_script": 0.2,
    "type_slopes": 0.15,
    "type_curves": 0.15,
    "noise": 0.08,
}
"""Medians of the parameters' prior distributions, which are log-normal; those of the exponents w_j follow."""
PRIOR_EXPONENT = 0.5
PRIOR_SPREAD = 1.0
"""Standard deviation of the logarithm of each parameter."""


@dataclass(frozen=True)
class Inputs:
    """n jobs on GPU types."""

    vectors: NDArray[np.float32]
    """Unit vectors, of shape (n, d)."""
    rows: Array
    """Columns of :class:`slurmcast.probe.features.Numbers`, of shape (n, m)."""
    types: NDArray[np.int64]
    """Indexes of the GPU types, of shape (n,)."""
    shared: int = 0
    """Columns at the end that have one exponent together: there are too many of them for one each."""

    def __len__(self) -> int:
        return len(self.types)

    def take(self, index: NDArray[np.integer]) -> Inputs:
        """The jobs at ``index``."""
        return Inputs(self.vectors[index], self.rows[index], self.types[index], self.shared)


def prior_means(columns: int, shared: int = 0) -> Array:
    """Prior means of the logarithms of all parameters, of shape (11 + exponents,): one exponent for each column, but
    one for the last ``shared`` together."""
    return np.log([*PRIOR.values(), *[PRIOR_EXPONENT] * (columns - max(shared - 1, 0))])


def exponents(theta: Array, columns: int) -> Array:
    """w_j of each column, of shape (columns,)."""
    own = np.exp(theta[len(PRIOR) :])
    return np.concatenate([own, np.full(columns - len(own), own[-1] if len(own) else 0.0)])


class Terms:
    """The building blocks of the covariance between ``a`` (n) and ``b`` (m) under ``theta``, the parameters' logs."""

    def __init__(self, theta: Array, a: Inputs, b: Inputs, squared: Array | None = None) -> None:
        self.p = dict(zip(PRIOR, np.exp(theta[: len(PRIOR)]), strict=True))
        weights = exponents(theta, a.rows.shape[1])
        self.squared = squared_distances(a.vectors, b.vectors) if squared is None else squared
        self.script = np.exp(-self.squared / (2 * self.p["reach"] ** 2))
        self.program = np.exp(-self.squared / (2 * ONE_PROGRAM**2))
        of_a, of_b = a.rows * weights, b.rows * weights
        self.linear = of_a @ of_b.T
        lengths = (of_a**2).sum(axis=1)[:, None] + (of_b**2).sum(axis=1)[None, :]
        self.bent = np.maximum(lengths - 2 * self.linear, 0.0) / self.p["bend"] ** 2
        self.curved = np.exp(-self.bent / 2)
        self.work = ((self.squared < SAME_WORK) & (self.bent < SAME_WORK)).astype(np.float64)
        self.same = (a.types[:, None] == b.types[None, :]).astype(np.float64)

    def covariance(self) -> Array:
        """K without noise, of shape (n, m)."""
        p = self.p
        of_script = p["script"] ** 2 + p["slopes"] ** 2 * self.linear + p["curves"] ** 2 * self.curved
        size = LEVEL**2 + self.linear + self.script * of_script + p["own"] ** 2 * self.work
        of_type = p["type_script"] ** 2 + p["type_curves"] ** 2 * self.curved
        ratio = p["type"] ** 2 + p["type_slopes"] ** 2 * self.linear + self.program * of_type
        return np.asarray(size + self.same * ratio)


def variances(theta: Array, inputs: Inputs) -> Array:
    """Prior variance of each job without noise, of shape (n,): the diagonal of its covariance with itself."""
    p = dict(zip(PRIOR, np.exp(2 * theta[: len(PRIOR)]), strict=True))
    linear = ((inputs.rows * exponents(theta, inputs.rows.shape[1])) ** 2).sum(axis=1)
    size = LEVEL**2 + p["script"] + p["curves"] + p["own"]
    ratio = p["type"] + p["type_script"] + p["type_curves"]
    return np.asarray(size + ratio + linear * (1 + p["slopes"] + p["type_slopes"]))


def loss_and_gradient(theta: Array, inputs: Inputs, squared: Array, targets: Array, runs: Array) -> tuple[float, Array]:
    """Negative log posterior of ``theta`` (up to a constant) and its gradient.

    ``targets`` (n,) are centred, the noise variance of each is ``noise^2 / runs``. Raises ``numpy.linalg.LinAlgError``
    where the covariance isn't positive definite.
    """
    terms = Terms(theta, inputs, inputs, squared)
    p = terms.p
    noise = p["noise"] ** 2 / runs
    covariance = terms.covariance() + np.diag(noise)
    half = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    alpha = inverse @ targets
    means = prior_means(inputs.rows.shape[1], inputs.shared)
    off = (theta - means) / PRIOR_SPREAD
    loss = 0.5 * targets @ alpha + np.log(np.diag(half)).sum() + 0.5 * off @ off

    m = (inverse - np.outer(alpha, alpha)) / 2
    ms, mt = m * terms.script, m * terms.same
    mpt = mt * terms.program
    on_linear = m + p["slopes"] ** 2 * ms + p["type_slopes"] ** 2 * mt
    on_curved = (p["curves"] ** 2 * ms + p["type_curves"] ** 2 * mpt) * terms.curved
    of_script = p["script"] ** 2 + p["slopes"] ** 2 * terms.linear + p["curves"] ** 2 * terms.curved
    scalars = {
        "script": 2 * p["script"] ** 2 * ms.sum(),
        "reach": (ms * of_script * terms.squared).sum() / p["reach"] ** 2,
        "slopes": 2 * p["slopes"] ** 2 * (ms * terms.linear).sum(),
        "curves": 2 * p["curves"] ** 2 * (ms * terms.curved).sum(),
        "bend": (on_curved * terms.bent).sum(),
        "own": 2 * p["own"] ** 2 * (m * terms.work).sum(),
        "type": 2 * p["type"] ** 2 * mt.sum(),
        "type_script": 2 * p["type_script"] ** 2 * mpt.sum(),
        "type_slopes": 2 * p["type_slopes"] ** 2 * (mt * terms.linear).sum(),
        "type_curves": 2 * p["type_curves"] ** 2 * (mpt * terms.curved).sum(),
        "noise": 2 * (np.diag(m) * noise).sum(),
    }
    z, squares = inputs.rows, exponents(theta, inputs.rows.shape[1]) ** 2
    along = (z * (on_linear @ z)).sum(axis=0)
    apart = (z**2 * on_curved.sum(axis=1)[:, None]).sum(axis=0) - (z * (on_curved @ z)).sum(axis=0)
    weights = 2 * squares * (along - apart / p["bend"] ** 2)
    if inputs.shared:
        weights = np.concatenate([weights[: -inputs.shared], [weights[-inputs.shared :].sum()]])
    return float(loss), np.concatenate([[scalars[name] for name in PRIOR], weights]) + off / PRIOR_SPREAD
