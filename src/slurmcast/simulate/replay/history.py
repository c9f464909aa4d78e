"""What a site's own cluster did, as work that can be done in another order and on other partitions.

A job ran on one partition. On another one it would have run longer by the ratio of its estimates there and here, where
there are any, else by the ratio of the GPU types' published speeds (:mod:`slurmcast.probe.gpus`). So the ratio is never
wrong, as far as the replay can tell; that between what was predicted and what a job really took is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurmcast.config import Config
from slurmcast.model import J_PER_KWH, Estimate
from slurmcast.policy.base import Floats, Mask
from slurmcast.probe import gpus
from slurmcast.simulate.replay.trace import Pools, Trace, TraceError, UnknownPool, said, submitted
from slurmcast.simulate.workload import Schedule
from slurmcast.store.runs import Run, Runs

LEAST_S = 1.0
"""Runs that took less count as this long."""


@dataclass(frozen=True, slots=True)
class Past:
    """A run that is over."""

    submit_s: float
    """In Unix seconds, as is ``start_s``."""
    start_s: float
    run_s: float
    partition: str
    gpu_type: str
    gpus: int
    user: str = ""
    limit_s: float = math.inf
    energy_kwh: float = math.nan
    allowed: frozenset[str] | None = None
    """The partitions beside its own that it could have run on; None: nothing says, so all of them."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


def from_store(config: Config, since: float = 0, until: float = math.inf) -> list[Past]:
    """The runs of jobs submitted in that time (Unix seconds). Raises :class:`TraceError` where there is no store, and
    :class:`slurmcast.store.database.StoreError`."""
    if not config.paths.store.exists():
        raise TraceError(f"{config.paths.store}: no such file; run this where slurmcastd runs, or take --sacct")
    runs = Runs(config.paths.store, config.cluster)
    try:
        return [_past(run) for run in runs.submitted(since, until)]
    finally:
        runs.close()


def _past(run: Run) -> Past:
    o = run.outcome
    return Past(
        submit_s=o.submit_time,
        start_s=o.start_time,
        run_s=o.elapsed_s,
        partition=o.partition,
        gpu_type=o.gpu_type or o.partition,
        gpus=o.gpus,
        user=run.user,
        limit_s=math.inf if run.time_limit_s is None else run.time_limit_s,
        energy_kwh=math.nan if o.energy_kwh is None else o.energy_kwh,
        allowed=run.allowed,
        estimates=run.estimates,
    )


def site(past: Sequence[Past], config: Config, counts: Mapping[str, int] | None = None) -> Pools:
    """The partitions of the history, or those of ``counts``, with the types and powers that the configuration gives.
    Without ``counts`` each has as many GPUs as were ever in use at once, and the fastest comes first. GPUs that are yet
    to be bought are named by their type. Raises :class:`UnknownPool` for names that are neither."""
    types = {run.partition: run.gpu_type for run in past}
    types |= {part.name: part.gpu_type for part in config.partition if part.gpu_type}
    there = types.keys() | {part.name for part in config.partition}
    if odd := [name for name in counts or () if name not in there and gpus.find(name) is None]:
        known = ", ".join(sorted(there)) or "none"
        raise UnknownPool(f"--gpus: {', '.join(odd)} is neither a partition ({known}) nor a known GPU type")
    if counts is None:
        speeds = {name: (gpu.speed or 0.0) if (gpu := gpus.find(types[name])) else 0.0 for name in types}
        used = sorted({run.partition for run in past}, key=lambda name: (-speeds[name], name))
        counts = {name: _peak([run for run in past if run.partition == name]) for name in used}
    idle = {part.name: part.idle_power_w for part in config.partition if part.idle_power_w is not None}
    busy = {part.name: part.prior_power_w for part in config.partition if part.prior_power_w is not None}
    return Pools(counts, {name: types.get(name, name) for name in counts}, idle, busy)


def _peak(runs: Sequence[Past]) -> int:
    """The most GPUs that were in use at once; of one moment, ends come before starts."""
    starts = [(run.start_s, run.gpus) for run in runs]
    ends = [(run.start_s + max(run.run_s, LEAST_S), -run.gpus) for run in runs]
    return int(np.cumsum([change for _, change in sorted(starts + ends)]).max())


def trace(past: Sequence[Past], pools: Pools, fill_energy: bool = False) -> Trace:
    """The history on ``pools``, with the schedule that it had.

    ``fill_energy``: take the mean power of a GPU type where a run's energy wasn't measured; else it stays unknown, on
    all partitions, so that every policy's energies are of the same jobs.
    """
    names, counts = list(pools.counts), np.array(list(pools.counts.values()))
    fitting = [run for run in past if _fits(run, pools)]
    chosen = sorted((run for run in fitting if run.start_s >= run.submit_s), key=lambda run: run.submit_s)
    if not chosen:
        raise TraceError("no finished run on GPUs to replay: take a longer time, or name its partitions by --gpus")
    here = np.array([names.index(run.partition) for run in chosen])
    figures = np.array([[_figures(run.estimates.get(name)) for name in names] for run in chosen])
    median_s, high_s, median_kwh, gpus_there = np.moveaxis(figures, 2, 0)
    own = np.arange(len(names)) == here[:, None]
    a = np.where(own | np.isnan(gpus_there), [[run.gpus] for run in chosen], gpus_there)
    told = [[run.allowed is None or name in run.allowed for name in names] for run in chosen]
    may = (own | np.array(told)) & (a <= counts)
    estimated = _next_to_own(median_s, own)
    published = np.stack([pools.longer(pools.gpu_types[run.partition]) for run in chosen])
    longer = np.where(np.isnan(estimated), published, estimated)
    run_s = np.array([[max(run.run_s, LEAST_S)] for run in chosen])
    time_s = run_s * longer
    modelled = a * time_s * pools.power_w() / J_PER_KWH
    dearer = _next_to_own(median_kwh, own)
    dearer = np.where(np.isnan(dearer), _next_to_own(modelled, own), dearer)
    measured = np.array([[run.energy_kwh] for run in chosen])
    energy_kwh = np.where(np.isnan(measured) & fill_energy, modelled, measured * dearer)
    workload = submitted(
        np.array([run.submit_s for run in chosen], np.float64),
        a,
        may,
        time_s,
        energy_kwh,
        np.array([run.limit_s for run in chosen], np.float64),
        [run.user for run in chosen],
    )
    known = ~np.isnan(median_s).all(axis=1)
    if known.any():
        workload = replace(workload, predicted_s=median_s, high_s=high_s, predicted_kwh=median_kwh)
    elsewhere = may & ~own
    unmeasured = int(np.isnan(measured).sum())
    notes = [
        f"{len(chosen)} runs, {int(elsewhere.any(axis=1).sum())} of which could have been elsewhere; "
        f"{int(known.sum())} have estimates",
        f"times elsewhere: {int((elsewhere & ~np.isnan(estimated)).sum())} by the jobs' estimates, "
        f"{int((elsewhere & np.isnan(estimated)).sum())} by published speed ratios",
        f"energy: {len(chosen) - unmeasured} runs measured, {unmeasured} "
        + ("by mean power" if fill_energy else "unknown (--fill-energy takes the mean power of the GPU type)"),
        *said(
            {
                "their partition isn't among --gpus, or is too small for them": len(past) - len(fitting),
                "they began before they were submitted": len(fitting) - len(chosen),
            }
        ),
        *_exceeded(chosen, pools),
    ]
    start_s = np.array([run.start_s for run in chosen], np.float64) - chosen[0].submit_s
    return Trace(workload, pools.cluster(), tuple(notes), bool(known.any()), Schedule(start_s, here))


def _exceeded(chosen: Sequence[Past], pools: Pools) -> list[str]:
    """The pools that had more GPUs in use at once than they are said to have: what was recorded is no like for like."""
    peaks = {name: _peak(runs) for name in pools.counts if (runs := [run for run in chosen if run.partition == name])}
    return [
        f"{name}: {peak} GPUs were in use at once, more than the {pools.counts[name]} that it is said to have"
        for name, peak in peaks.items()
        if peak > pools.counts[name]
    ]


def _fits(run: Past, pools: Pools) -> bool:
    return run.partition in pools.counts and run.gpus <= pools.counts[run.partition]


def _figures(estimate: Estimate | None) -> tuple[float, float, float, float]:
    """Median and 0.9 quantile of the time in s, median energy in kWh, and GPUs; NaN where there is none."""
    if estimate is None or estimate.time_s is None:
        return (math.nan,) * 4
    energy = estimate.energy_kwh
    return (
        max(estimate.time_s.p50, LEAST_S),
        max(estimate.time_s.p90, LEAST_S),
        math.nan if energy is None else energy.p50,
        float(estimate.gpus),
    )


def _next_to_own(values: Floats, own: Mask) -> Floats:
    """``values`` (n, m) as a multiple of that on each job's own partition."""
    result: Floats = values / values[own][:, None]
    return result
