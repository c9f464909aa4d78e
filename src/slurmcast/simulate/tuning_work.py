"""What kappa is tuned on: the site's own history, or made-up work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurmcast.config import Config
from slurmcast.policy.inputs import Inputs
from slurmcast.series import CARBON, PRICE, Series, SeriesError
from slurmcast.series_file import read_file
from slurmcast.simulate.calibrations import DEFAULT, calibration
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.paper import Setup, sample
from slurmcast.simulate.replay import history
from slurmcast.simulate.replay.trace import Pools
from slurmcast.simulate.tuning import Sample, TuningError, blocks

NOISE = 0.3
"""Error of predictions where none were made and nobody says."""
TUNED_ON = 2
"""Stream of samples, beside the seed; the paper's experiment has the others."""


@dataclass(frozen=True)
class Work:
    """Samples, what their blocks are, and what is to be said of them."""

    samples: Sequence[Sample]
    kind: str
    notes: tuple[str, ...]


def of_store(config: Config, since: float, gpus: Pools | None, noise: float | None, seed: int) -> Work:
    """The jobs that were submitted since (Unix seconds). ``noise`` None: predictions as they were made, where any were.

    Raises :class:`TuningError`, :class:`slurmcast.simulate.replay.trace.TraceError`,
    :class:`slurmcast.store.database.StoreError`.
    """
    past = history.from_store(config, since)
    found = history.site(past, config, gpus.counts if gpus else None)
    if not past:
        raise TuningError("no GPU job of that time has finished: let jobs finish, give more --days, or try --synthetic")
    trace = history.trace(past, found, fill_energy=True)
    workload = trace.workload
    if noise is not None or not trace.predicted:
        workload = with_noise(workload, NOISE if noise is None else noise, 0.0, seed)
    block, kind = blocks(workload.submit_s)
    inputs = site_inputs(config, found, min(run.submit_s for run in past))
    return Work([Sample(workload, trace.cluster, block, inputs)], kind, trace.notes)


def made_up(config: Config, samples: int, noise: float | None, seed: int) -> Work:
    """Two months each of a data centre like the paper's, under the site's cap and prices. Raises
    :class:`TuningError`."""
    parameters = calibration(DEFAULT)
    found = []
    setup = Setup((), noise=NOISE if noise is None else noise, seed=seed)
    for number in range(samples):
        workload, cluster = sample(parameters, setup, TUNED_ON, number)
        counts = dict(zip(cluster.types, cluster.gpus.astype(int).tolist(), strict=True))
        inputs = site_inputs(config, Pools(counts, {name: name for name in counts}), 0.0)
        found.append(Sample(workload, cluster, np.zeros(len(workload), np.int64), inputs))
    note = f"{samples} samples of two months of work like the paper's ({DEFAULT}); they say nothing about this site."
    return Work(found, "samples", (note,))


def site_inputs(config: Config, found: Pools, began: float) -> Inputs:
    """The cap and the prices of the configuration, for work whose time 0 is ``began`` (Unix seconds)."""
    series = _series(config.agent.price_file)
    if series is not None:
        series = replace(series, starts=series.starts - began, ends=series.ends - began)
    power_w, cap_w = found.power_w(), config.agent.power_cap_w
    if cap_w is not None and np.isnan(power_w).any():
        raise TuningError("agent.power_cap_w needs the power of every partition's GPUs: set its prior_power_w")
    return Inputs(cap_w, power_w, series)


def _series(path: Path | None) -> Series | None:
    if path is None:
        return None
    try:
        return read_file(path, (CARBON, PRICE))
    except SeriesError as error:
        raise TuningError(f"agent.price_file {path}: {error}") from None
