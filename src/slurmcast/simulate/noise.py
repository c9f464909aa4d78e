"""Predictions made from the truth, with an error of a given size, and jobs of which nothing is predicted.

"30 %" is ``sigma`` = 0.3: the standard deviation of the natural logarithm of predicted / true time. Half of the
predictions are then within a factor of 1.22 of the truth, nine in ten within 1.64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from slurmcast.simulate.workload import Workload

P90 = NormalDist().inv_cdf(0.9)
"""Standard deviations from the median to the 0.9 quantile of a normal distribution."""


@dataclass(frozen=True)
class Split:
    """Where the error lies. A job's size is what is hard to predict; the ratio between two GPU types and the power of
    one are easier (``probe/size_ratio.py`` models them apart)."""

    shared: float = 0.8
    """Share of the variance that a job's error has in common on all types. The ratio between two of them is off by
    sigma * sqrt(2 (1 - shared)): 0.63 sigma."""
    power: float = 0.3
    """Standard deviation of the mean power's error, in sigma. Energy is time x power, so it errs with the time."""


def with_noise(workload: Workload, sigma: float, unknown_share: float, seed: int, split: Split = Split()) -> Workload:
    """``workload`` with predictions that err by ``sigma``, independently of the truth, and none for a share of the jobs
    drawn at random. The predicted median is right in the median, and the 0.9 quantile holds for nine jobs in ten.

    For one ``seed``, errors grow in proportion to ``sigma`` and the unknown jobs of a smaller share are among those of
    a larger one, so that runs differ by what is varied alone.
    """
    if not (sigma >= 0 and 0 <= unknown_share <= 1 and 0 <= split.shared <= 1 and split.power >= 0):
        raise ValueError(f"noise {sigma}, unknown {unknown_share}, {split}: shares are 0 to 1, noise is 0 or more")
    rng = np.random.default_rng(seed)
    shape = workload.time_s.shape
    job, pair, power = rng.standard_normal((shape[0], 1)), rng.standard_normal(shape), rng.standard_normal(shape)
    error = np.sqrt(split.shared) * job + np.sqrt(1 - split.shared) * pair
    median_s = workload.time_s * np.exp(sigma * error)
    unknown = rng.permutation(shape[0])[: round(unknown_share * shape[0])]
    known = np.ones((shape[0], 1), bool)
    known[unknown] = False
    energy_kwh = workload.energy_kwh * np.exp(sigma * (error + split.power * power))
    return replace(
        workload,
        predicted_s=np.where(known, median_s, np.nan),
        high_s=np.where(known, median_s * np.exp(P90 * sigma), np.nan),
        predicted_kwh=np.where(known, energy_kwh, np.nan),
    )
