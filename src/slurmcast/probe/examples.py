"""What a probe learns from: finished runs, and their merging where the same work ran several times."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from slurmcast.model import J_PER_KWH
from slurmcast.probe.fair_share import allotted


class TrainingError(Exception):
    """No probe can be trained from these examples; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Example:
    """One finished run of a job."""

    key: str
    """The same for all runs of the same work (script, sources, arguments, request): never split by cross-validation."""
    vector: NDArray[np.float32]
    """The script's embedding, of shape (dimensions,)."""
    numbers: Mapping[str, float]
    """Numbers that decide the work, as the script reader names them; a number that isn't known is absent."""
    gpus: int
    partition: str
    gpu_type: str
    """Empty: the partition's name stands for it."""
    time_s: float
    energy_kwh: float | None = None
    """Energy of all the run's GPUs; None where not measured or shared with other jobs."""
    gpu_memory_gb: float | None = None
    """Peak memory of the GPU that used most; None where not measured."""
    owner: int | None = None
    """Whose job it is, by user id; those that aren't known are one's. It says how far a job counts; no model has it."""

    @property
    def type(self) -> str:
        """The GPU type that the run counts for."""
        return self.gpu_type or self.partition


@dataclass(frozen=True, slots=True)
class Sample:
    """One owner's runs of one key on one GPU type with one number of GPUs, merged; see :func:`merged`."""

    key: str
    vector: NDArray[np.float32]
    numbers: Mapping[str, float]
    gpus: int
    type: str
    log_time: float
    """Mean of the natural logarithm of the running time in s."""
    runs: int
    place: int
    """Of the latest of them, among all that were merged: of two samples the one with the larger place ran last."""
    log_power: float | None = None
    """Mean of the natural logarithm of one GPU's mean power in W, None where no run was measured."""
    measured: int = 0
    """Runs whose energy was measured."""
    log_memory: float | None = None
    """Mean of the natural logarithm of the peak GPU memory in GB, None where no run was measured."""
    memory_runs: int = 0
    """Runs whose memory was measured."""
    owner: int | None = None

    @property
    def log_energy(self) -> float | None:
        """Logarithm of the energy of all GPUs in kWh, None where not measured."""
        return None if self.log_power is None else log_energy(self.log_time, self.log_power, self.gpus)


def log_energy(log_time: float, log_power: float, gpus: int) -> float:
    """log(t p a / 3.6e6): logarithm of kWh from those of s and of W a GPU."""
    return log_time + log_power + math.log(gpus) - math.log(J_PER_KWH)


def merged(examples: Iterable[Example]) -> list[Sample]:
    """``examples``, the oldest first, with repeated runs merged, in the order in which each was seen first. The latest
    of several runs stays apart: how far it is from those before tells how far the next one may be from all of them.

    Raises :class:`TrainingError` for a run that can't have been (a time that isn't positive, no GPU).
    """
    groups: dict[tuple[str, str, int, int | None], list[tuple[int, Example]]] = defaultdict(list)
    for place, example in enumerate(examples):
        if not (math.isfinite(example.time_s) and example.time_s > 0 and example.gpus >= 1):
            raise TrainingError(f"{example.key}: a run of {example.time_s} s on {example.gpus} GPUs is no example")
        groups[example.key, example.type, example.gpus, example.owner].append((place, example))
    return [_sample(runs) for group in groups.values() for runs in (group[:-1], group[-1:]) if runs]


def latest(samples: Sequence[Sample], count: int) -> list[Sample]:
    """The ``count`` of ``samples`` that ran last, in the order that they have: a work of old that runs every night is
    among them. Where one owner's would take more than his places, others' that ran before are."""
    newest_first = sorted(samples, key=lambda sample: -sample.place)
    kept = set(allotted(((sample.owner, sample.place) for sample in newest_first), count))
    return [sample for sample in samples if sample.place in kept]


def _sample(placed: Sequence[tuple[int, Example]]) -> Sample:
    runs = [run for _, run in placed]
    first = runs[0]
    energies = [(run, run.energy_kwh) for run in runs if run.energy_kwh is not None and run.energy_kwh > 0]
    log_powers = [math.log(kwh * J_PER_KWH / (run.time_s * run.gpus)) for run, kwh in energies]
    memories = [run.gpu_memory_gb for run in runs if run.gpu_memory_gb is not None and run.gpu_memory_gb > 0]
    return Sample(
        key=first.key,
        vector=first.vector,
        numbers=first.numbers,
        gpus=first.gpus,
        type=first.type,
        log_time=fmean(math.log(run.time_s) for run in runs),
        runs=len(runs),
        place=placed[-1][0],
        log_power=fmean(log_powers) if log_powers else None,
        measured=len(log_powers),
        log_memory=fmean(map(math.log, memories)) if memories else None,
        memory_runs=len(memories),
        owner=first.owner,
    )
