"""What a probe learns from: finished runs, and their merging where the same work ran several times."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slurmcast.model import J_PER_KWH


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

    @property
    def type(self) -> str:
        """The GPU type that the run counts for."""
        return self.gpu_type or self.partition


@dataclass(frozen=True, slots=True)
class Sample:
    """All runs of one key on one GPU type with one number of GPUs, merged."""

    key: str
    vector: NDArray[np.float32]
    numbers: Mapping[str, float]
    gpus: int
    type: str
    log_time: float
    """Mean of the natural logarithm of the running time in s."""
    runs: int
    log_power: float | None = None
    """Mean of the natural logarithm of one GPU's mean power in W, None where no run was measured."""
    measured: int = 0
    """Runs whose energy was measured."""
    log_memory: float | None = None
    """Mean of the natural logarithm of the peak GPU memory in GB, None where no run was measured."""
    memory_runs: int = 0
    """Runs whose memory was measured."""

    @property
    def log_energy(self) -> float | None:
        """Logarithm of the energy of all GPUs in kWh, None where not measured."""
        return None if self.log_power is None else log_energy(self.log_time, self.log_power, self.gpus)


def log_energy(log_time: float, log_power: float, gpus: int) -> float:
    """log(t p a / 3.6e6): logarithm of kWh from those of s and of W a GPU."""
    return log_time + log_power + math.log(gpus) - math.log(J_PER_KWH)


@dataclass
class _Runs:
    log_times: list[float] = field(default_factory=list)
    log_powers: list[float] = field(default_factory=list)
    log_memories: list[float] = field(default_factory=list)


def merged(examples: Iterable[Example]) -> list[Sample]:
    """``examples`` with repeated runs merged, in the order in which each was seen first.

    Raises :class:`TrainingError` for a run that can't have been (a time that isn't positive, no GPU).
    """
    runs: dict[tuple[str, str, int], _Runs] = defaultdict(_Runs)
    first: dict[tuple[str, str, int], Example] = {}
    for example in examples:
        if not (math.isfinite(example.time_s) and example.time_s > 0 and example.gpus >= 1):
            raise TrainingError(f"{example.key}: a run of {example.time_s} s on {example.gpus} GPUs is no example")
        group = (example.key, example.type, example.gpus)
        first.setdefault(group, example)
        runs[group].log_times.append(math.log(example.time_s))
        if example.energy_kwh is not None and example.energy_kwh > 0:
            power_w = example.energy_kwh * J_PER_KWH / (example.time_s * example.gpus)
            runs[group].log_powers.append(math.log(power_w))
        if example.gpu_memory_gb is not None and example.gpu_memory_gb > 0:
            runs[group].log_memories.append(math.log(example.gpu_memory_gb))
    return [_sample(first[group], runs[group]) for group in first]


def _sample(example: Example, runs: _Runs) -> Sample:
    return Sample(
        key=example.key,
        vector=example.vector,
        numbers=example.numbers,
        gpus=example.gpus,
        type=example.type,
        log_time=float(np.mean(runs.log_times)),
        runs=len(runs.log_times),
        log_power=float(np.mean(runs.log_powers)) if runs.log_powers else None,
        measured=len(runs.log_powers),
        log_memory=float(np.mean(runs.log_memories)) if runs.log_memories else None,
        memory_runs=len(runs.log_memories),
    )
