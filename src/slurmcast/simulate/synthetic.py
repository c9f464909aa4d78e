"""Made-up work as in the paper's simulation (arXiv 2608.18503, A.3.2): jobs arrive by a heterogeneous Poisson process,
running times and energies come from truncated normal distributions, two GPU types have random counts.

What the paper doesn't say, ``Parameters`` holds; docs/simulation.md tells how its values were found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.model import DAY_S, HOUR_S
from slurmcast.policy.base import Floats
from slurmcast.simulate.workload import Cluster, Workload

DAYS = 62
"""1 July (a Monday) to 31 August 2024, the paper's period."""
TYPES = ("a100", "a6000")
COUNTS = ((10, 20), (20, 40))
"""Least and most GPUs of each type."""
IDLE_POWER_W = (55.0, 25.0)
"""Typical readings of idle cards; only in energies with idle GPUs."""
LIMIT_FACTOR = 5.0
"""Users ask for between one and this many times what the job takes on its slowest type, uniformly (the f-model of
Mu'alem and Feitelson 2001 with f = 4)."""


@dataclass(frozen=True)
class Parameters:
    """A data centre. Pairs are (a100, a6000); means and deviations are those before the truncation."""

    jobs: float
    """Expected number of jobs in the period."""
    daily_swing: float
    """Amplitude of the daily rhythm, 0 to 1; the peak is at 15:00."""
    weekend: float
    """Rate on Saturdays and Sundays, as a share of the other days'."""
    burst_share: float
    """Share of the jobs that come in bursts."""
    burst_starts_h: tuple[float, ...]
    """When each burst begins, in hours from the start."""
    burst_length_h: float
    gpus: tuple[int, ...]
    """What jobs ask for, the same on both types,"""
    gpu_shares: tuple[float, ...]
    """and how many do."""
    time_s: tuple[float, float]
    time_sd_s: tuple[float, float]
    energy_kwh: tuple[float, float]
    energy_sd_kwh: tuple[float, float]
    correlation: float
    """Between any two of a job's four figures; 0 draws each by itself."""

    def __post_init__(self) -> None:
        """Raises ValueError where no work could be drawn."""
        if not (0 <= self.daily_swing <= 1 and 0 <= self.burst_share <= 1 and 0 <= self.correlation <= 1):
            raise ValueError("daily_swing, burst_share and correlation must lie between 0 and 1")
        if min(*self.time_s, *self.time_sd_s, *self.energy_kwh, *self.energy_sd_kwh, self.jobs) <= 0:
            raise ValueError("jobs, times, energies and their deviations must be positive")
        if len(self.gpus) != len(self.gpu_shares) or max(self.gpus) > COUNTS[0][0]:
            raise ValueError(f"gpus and gpu_shares must be as many; no job may ask for more than {COUNTS[0][0]} GPUs")


def rate(parameters: Parameters, at_s: Floats) -> Floats:
    """Expected arrivals per second at each of the moments ``at_s`` (k,), between 0 and DAYS days."""
    day = np.floor(at_s / DAY_S)
    rhythm = 1 + parameters.daily_swing * np.sin(2 * np.pi * (at_s / DAY_S - day - 9 / 24))
    weekend = np.where(day % 7 >= 5, parameters.weekend, 1.0)
    mean = np.where(np.arange(DAYS) % 7 >= 5, parameters.weekend, 1.0).mean()
    usual = rhythm * weekend / (mean * DAYS * DAY_S)
    length_s = parameters.burst_length_h * HOUR_S
    starts_s = np.array(parameters.burst_starts_h) * HOUR_S
    bursts = ((at_s[:, None] >= starts_s) & (at_s[:, None] < starts_s + length_s)).sum(axis=1) / length_s
    share = parameters.burst_share / max(len(starts_s), 1)
    result: Floats = parameters.jobs * ((1 - parameters.burst_share) * usual + share * bursts)
    return result


def arrivals(parameters: Parameters, rng: np.random.Generator) -> Floats:
    """Moments of arrival in s, rising, drawn by thinning (Lewis and Shedler 1979)."""
    period_s = DAYS * DAY_S
    highest = rate(parameters, np.arange(0, period_s, HOUR_S / 4)).max() * 1.01
    candidates = np.sort(rng.uniform(0, period_s, rng.poisson(highest * period_s)))
    kept: Floats = candidates[rng.random(len(candidates)) * highest < rate(parameters, candidates)]
    return kept


def truncated_normals(mean: Floats, sd: Floats, correlation: float, n: int, rng: np.random.Generator) -> Floats:
    """(n, k) positive draws from a normal distribution with ``mean`` and ``sd`` (k,) and one correlation: rows with a
    figure that isn't positive are drawn again."""
    result = np.empty((n, len(mean)))
    missing = np.arange(n)
    while len(missing):
        common, own = rng.standard_normal((len(missing), 1)), rng.standard_normal((len(missing), len(mean)))
        result[missing] = mean + sd * (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own)
        missing = np.flatnonzero((result <= 0).any(axis=1))
    return result


def draw(parameters: Parameters, seed: tuple[int, ...]) -> tuple[Workload, Cluster]:
    """One sample of the two months. Predictions are the truth; :mod:`slurmcast.simulate.noise` worsens them."""
    rng = np.random.default_rng(seed)
    counts = np.array([rng.integers(low, high, endpoint=True) for low, high in COUNTS], float)
    submit_s = arrivals(parameters, rng)
    n, shares = len(submit_s), np.array(parameters.gpu_shares)
    gpus = rng.choice(np.array(parameters.gpus, float), n, p=shares / shares.sum())
    mean = np.array([*parameters.time_s, *parameters.energy_kwh])
    sd = np.array([*parameters.time_sd_s, *parameters.energy_sd_kwh])
    figures = truncated_normals(mean, sd, parameters.correlation, n, rng)
    time_s, energy_kwh = figures[:, :2].copy(), figures[:, 2:].copy()
    workload = Workload(
        submit_s=submit_s,
        gpus=np.repeat(gpus[:, None], 2, axis=1),
        may=np.ones((n, 2), bool),
        time_s=time_s,
        energy_kwh=energy_kwh,
        predicted_s=time_s,
        high_s=time_s,
        predicted_kwh=energy_kwh,
        limit_s=time_s.max(axis=1) * rng.uniform(1, LIMIT_FACTOR, n),
    )
    return workload, Cluster(TYPES, counts, np.array(IDLE_POWER_W))
