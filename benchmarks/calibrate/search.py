"""One data centre: what isn't known of it is drawn; some figures are fitted to the Simple rule's column of Table 2.

The other columns are never looked at.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from slurmcast.policy.simple import simple
from slurmcast.simulate.engine import run
from slurmcast.simulate.executors import skip
from slurmcast.simulate.metrics import measure
from slurmcast.simulate.synthetic import DAYS, Parameters, draw

FIGURES = ("wait_s", "waiting_tasks", "run_s", "energy_kwh")
SIMPLE = np.array([2_466_062.56, 27.38, 15_333_868.47, 440.98])
"""The Simple rule's column of Table 2 (arXiv 2608.18503), in the order of FIGURES."""
SHARES = (0.02, 0.95)
"""Least and most share of jobs in bursts; a data centre that needs another is given up."""


def guess(rng: np.random.Generator) -> Parameters:
    """A data centre with everything drawn from wide ranges; jobs, times and share of bursts are where to start from."""
    jobs, ratio, power = rng.uniform(80, 200), rng.uniform(1.0, 1.8), rng.uniform(0.3, 1.0)
    time_s, energy_kwh = SIMPLE[2] / jobs * 0.9, SIMPLE[3] / jobs * 0.9
    spread = rng.uniform(0.2, 0.7, 4)
    starts_h = np.sort(rng.uniform(0, (DAYS - 2) * 24, rng.integers(2, 9)))
    shares = rng.dirichlet(np.ones(4))
    return Parameters(
        jobs=jobs,
        daily_swing=rng.uniform(0.2, 0.9),
        weekend=rng.uniform(0.2, 1.0),
        burst_share=0.3,
        burst_starts_h=tuple(starts_h.round(1).tolist()),
        burst_length_h=round(float(rng.uniform(4, 48)), 1),
        gpus=(1, 2, 4, 8),
        gpu_shares=tuple(shares.round(3).tolist()),
        time_s=(time_s, time_s * ratio),
        time_sd_s=(time_s * spread[0], time_s * ratio * spread[1]),
        energy_kwh=(energy_kwh, energy_kwh * power),
        energy_sd_kwh=(energy_kwh * spread[2], energy_kwh * power * spread[3]),
        correlation=rng.uniform(0.0, 0.9),
    )


def figures(parameters: Parameters, seed: tuple[int, ...], samples: int) -> np.ndarray:
    """The Simple rule's four figures, averaged over ``samples``."""
    found = []
    for i in range(samples):
        workload, cluster = draw(parameters, (*seed, i))
        metrics = measure(workload, cluster, run(workload, cluster, simple, skip))
        found.append([getattr(metrics, name) for name in FIGURES])
    return np.mean(found, axis=0)


def fitted(parameters: Parameters, seed: tuple[int, ...], samples: int, rounds: int) -> Parameters | None:
    """``parameters`` with the number of jobs, the times, the share of bursts and the energies moved towards SIMPLE.

    Jobs x time makes the running time, time the wait of one waiting job, the share of bursts how many wait. Each round
    moves each by a part of what it lacks, for the three hang together. None where the share of bursts leaves SHARES.
    """
    for _ in range(rounds):
        wait, waiting, run_s, energy = np.log(SIMPLE / np.maximum(figures(parameters, seed, samples), 1e-9))
        longer = float(np.clip(0.6 * (wait - waiting), -0.5, 0.5))
        odds = parameters.burst_share / (1 - parameters.burst_share) * np.exp(np.clip(1.5 * waiting, -1, 1))
        share = float(odds / (1 + odds))
        if not SHARES[0] <= share <= SHARES[1]:
            return None
        parameters = replace(
            parameters,
            jobs=float(parameters.jobs * np.exp(run_s - longer)),
            burst_share=share,
            time_s=scaled(parameters.time_s, longer),
            time_sd_s=scaled(parameters.time_sd_s, longer),
            energy_kwh=scaled(parameters.energy_kwh, energy - run_s + longer),
            energy_sd_kwh=scaled(parameters.energy_sd_kwh, energy - run_s + longer),
        )
    return parameters


def scaled(pair: tuple[float, float], by: float) -> tuple[float, float]:
    factor = float(np.exp(by))
    return pair[0] * factor, pair[1] * factor


def rounded(parameters: Parameters) -> Parameters:
    """To four digits: what a person may read is what was checked."""

    def short(value: object) -> object:
        return tuple(short(v) for v in value) if isinstance(value, tuple) else float(f"{value:.4g}")

    found = {name: short(value) for name, value in asdict(parameters).items()}
    return replace(parameters, **{**found, "gpus": parameters.gpus})
