"""What all recorded work has in common: the cluster that it is replayed on, what published figures say where nothing
was recorded, and what has to be said of the result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurmcast.policy.base import Floats, Mask
from slurmcast.probe import gpus
from slurmcast.simulate.workload import Cluster, Schedule, Workload

_COUNT = re.compile(r"[0-9]{1,9}")

IDLE_SHARE = 0.13
"""Power of a GPU that does nothing, as a share of its power limit, where nobody gave it. Ours: cards that we know of
read 25 to 55 W. It counts in energies with idle GPUs alone."""

EVERYTHING = 1 << 40
"""GPUs of a pool for which no job is too large."""
MOST_GPUS = 10**6
"""Of one type; larger clusters are typing errors."""
NEAR = 0.95
"""A load that is less than this share of the one that was asked for is told."""
LARGEST = 1e12
"""Times in s and amounts in a record are smaller, some 30,000 years; larger ones are damage."""


class TraceError(ValueError):
    """The record can't be replayed; the message names file and line, and says what to do."""


class UnknownPool(TraceError):
    """``--gpus`` names what isn't there; the message says what is."""


@dataclass(frozen=True)
class Trace:
    """Recorded work on a cluster, and what is to be said of it."""

    workload: Workload
    """Its predictions are the truth unless ``predicted``."""
    cluster: Cluster
    notes: tuple[str, ...] = ()
    """How it was made, for people: what was left out, where times and energies are from."""
    predicted: bool = False
    """Whether the predictions are those that were really made."""
    schedule: Schedule | None = None
    """What really happened, where that is known."""


@dataclass(frozen=True)
class Pools:
    """GPUs of each type, as ``--gpus`` gives them, the most powerful type first."""

    counts: Mapping[str, int]
    gpu_types: Mapping[str, str]
    """The GPU type of each pool; a pool of a history is a partition, others are named after their type."""
    idle_power_w: Mapping[str, float] = field(default_factory=dict)
    """Of one GPU, where somebody says."""
    busy_power_w: Mapping[str, float] = field(default_factory=dict)
    """The same while it works."""

    def cluster(self) -> Cluster:
        """As the simulator needs it."""
        names = tuple(self.counts)
        idle = [self.idle_power_w.get(name, idle_power_w(self.gpu_types[name])) for name in names]
        return Cluster(names, np.array(list(self.counts.values()), np.float64), np.array(idle, np.float64))

    def power_w(self) -> Floats:
        """Mean power of one busy GPU of each, (m,), else by the published figures; NaN where there are none."""
        return np.array([self.busy_power_w.get(name, power_w(self.gpu_types[name])) for name in self.counts])

    def longer(self, than: str) -> Floats:
        """How many times as long a job runs on each as on GPU type ``than``, (m,), by the published figures."""
        ratios = gpus.longer(than, self.gpu_types)
        return np.array([math.exp(ratios[name].log) for name in self.counts])

    def unpublished(self, than: str) -> list[str]:
        """What is to be said of :meth:`longer`: the types whose ratio is a guess."""
        guessed = [name for name, kind in self.gpu_types.items() if gpus.ratio(than, kind) is None]
        ending = "taken to be as slow as the slowest of the others"
        return [f"no published ratio of {', '.join(guessed)} to {than}: {ending}"] if guessed else []


def power_w(gpu_type: str) -> float:
    """Mean power of a busy GPU by the published figures, NaN where there are none."""
    gpu = gpus.find(gpu_type)
    return math.nan if gpu is None else gpu.power_w


def idle_power_w(gpu_type: str) -> float:
    """:data:`IDLE_SHARE` of the power limit; 0 for a type whose limit isn't published."""
    gpu = gpus.find(gpu_type)
    return 0.0 if gpu is None else IDLE_SHARE * gpu.tdp_w


def pools(text: str) -> Pools:
    """``v100=36,p100=36`` as pools. Raises :class:`TraceError`."""
    counts: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if not name or not _COUNT.fullmatch(number) or not 1 <= int(number) <= MOST_GPUS or name in counts:
            must = f"TYPE=N, N up to {MOST_GPUS}, each type once, the most powerful first"
            raise TraceError(f"--gpus {text[:80]}: {part.strip()[:80]!r} must be {must}")
        counts[name] = int(number)
    return Pools(counts, {name: name for name in counts})


def load(workload: Workload, gpus_of_type: Floats) -> float:
    """How much of the cluster the work needs while it is submitted; above 1 the queue can only grow.

    The whole cluster would end sum_j c_j / (a_ij t_ij) jobs like job i a second. So each job takes up the inverse of
    that, and the load is the sum over all jobs next to the time from the first to the last submission.
    """
    rate = np.where(workload.may, gpus_of_type / (workload.gpus * workload.time_s), 0.0).sum(axis=1)
    span_s = float(np.ptp(workload.submit_s)) if len(workload) else 0.0
    return float((1 / rate).sum()) / span_s if span_s else math.inf


def break_even_kappa(workload: Workload) -> float:
    """The kappa, in 1/(GPU s kWh), with which time and energy of the median job count alike on the type where that is
    least: min_j 1 / (a_ij t_ij e_ij). Around it, kappa makes a difference. NaN where no energy is known."""
    with np.errstate(divide="ignore"):
        each = np.where(workload.may, 1 / (workload.gpus * workload.time_s * workload.energy_kwh), np.nan)
    known = each[~np.isnan(each).all(axis=1)]
    return float(np.median(np.nanmin(known, axis=1))) if len(known) else math.nan


def sized(found: Pools, workload: Workload, target: float) -> Pools:
    """The same pools, larger or smaller by one factor, for a :func:`load` of ``target``; each as large as the widest
    job that may run there needs, and at least one GPU."""
    counts = np.array(list(found.counts.values()), np.float64)
    factor = load(workload, counts) / target
    if not math.isfinite(factor):
        raise TraceError("--load needs jobs that were submitted at different times")
    chosen = np.maximum(np.round(counts * factor), _widest(workload))
    if chosen.max() > MOST_GPUS:
        raise TraceError(f"--load {target:g} takes {chosen.max():.3g} GPUs of a type: give a larger load")
    chosen = chosen.astype(int)
    return replace(found, counts=dict(zip(found.counts, chosen.tolist(), strict=True)))


def _widest(workload: Workload) -> Floats:
    """GPUs of each type that its largest job needs, (m,), one at least."""
    result: Floats = np.where(workload.may, workload.gpus, 1.0).max(axis=0)
    return result


def on(found: Pools, target: float | None, made: Callable[[Pools], Trace]) -> Trace:
    """The trace that ``made`` makes of pools, on these, or on larger or smaller ones for a load of ``target``."""
    if target is None:
        return made(found)
    boundless = replace(found, counts=dict.fromkeys(found.counts, EVERYTHING))
    trace = made(sized(found, made(boundless).workload, target))
    work, counts = trace.workload, trace.cluster.gpus
    if (reached := load(work, counts)) < NEAR * target and (counts == _widest(work)).any():
        note = f"load {reached:.2g} and not {target:g}: a type has as many GPUs as its largest job needs, not fewer"
        return replace(trace, notes=(*trace.notes, note))
    return trace


def submitted(
    submit_s: Floats,
    a: Floats,
    may: Mask,
    time_s: Floats,
    energy_kwh: Floats,
    limit_s: Floats,
    user: Sequence[str] = (),
) -> Workload:
    """A workload of one job at least in the order of submission, from time 0 on, whose predictions are the truth.

    A job whose energy isn't known on one of the types where it may run has none on any, so that every policy's energies
    are of the same jobs."""
    order = np.argsort(submit_s, kind="stable")
    energy_kwh = np.where((np.isnan(energy_kwh) & may).any(axis=1, keepdims=True), np.nan, energy_kwh)
    time_s, energy_kwh = time_s[order], energy_kwh[order]
    return Workload(
        submit_s=(submit_s - submit_s.min())[order],
        gpus=a[order],
        may=may[order],
        time_s=time_s,
        energy_kwh=energy_kwh,
        predicted_s=time_s.copy(),
        high_s=time_s.copy(),
        predicted_kwh=energy_kwh.copy(),
        limit_s=limit_s[order],
        user=tuple(user[i] for i in order) if any(user) else (),
    )


def said(counts: Mapping[str, int]) -> list[str]:
    """``3 jobs left out: they were cancelled`` for each reason that occurred."""
    return [f"{number} jobs left out: {reason}" for reason, number in counts.items() if number]
