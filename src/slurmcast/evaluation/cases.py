"""Finished jobs as cases: the older ones to learn from, the newer ones to test with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurmcast.config import Config
from slurmcast.drift.figures import measured
from slurmcast.probe.prior import Site
from slurmcast.probe.train import MIN_KEYS
from slurmcast.store.records import Label

MIN_TESTED = 5
"""Newer jobs from which a test says anything."""


class TooFewJobs(Exception):
    """No test is possible; the message says how many jobs it takes."""


@dataclass(frozen=True, slots=True)
class Case:
    """A finished job with the vector of its text."""

    label: Label
    vector: NDArray[np.float32]

    @property
    def key(self) -> str:
        return self.label.key

    @property
    def type(self) -> str:
        """The GPU type that it ran on."""
        return self.label.outcome.gpu_type or self.label.outcome.partition

    @property
    def gpus(self) -> int:
        return self.label.outcome.gpus

    @property
    def ended(self) -> int:
        """In Unix seconds."""
        return self.label.outcome.end_time

    @property
    def shared(self) -> bool:
        """Whether it asked for parts of GPUs."""
        gpus = self.label.reading.gpus
        return gpus is not None and gpus.shared

    def truth(self, target: str) -> float:
        """Natural logarithm of the time in s or the energy in kWh; NaN where it wasn't measured."""
        return math.log(measured(self.label.outcome, target))


def cases(labels: Sequence[Label], vectors: Mapping[str, NDArray[np.float32]]) -> list[Case]:
    """``labels`` with their vectors, by text key, in the order in which they ended; those without one are left out."""
    ordered = sorted(labels, key=lambda label: (label.outcome.end_time, label.outcome.job_id))
    return [Case(label, vectors[label.text_key]) for label in ordered if label.text_key in vectors]


def split(ordered: Sequence[Case], share: float) -> tuple[list[Case], list[Case]]:
    """The ``share`` of the jobs that ended first, and the others. Raises :class:`TooFewJobs`."""
    cut = round(len(ordered) * share)
    return checked(ordered[:cut], ordered[cut:])


def checked(older: Sequence[Case], newer: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """``older`` and ``newer`` where both are enough. Raises :class:`TooFewJobs`."""
    keys = len({case.key for case in older})
    if keys < MIN_KEYS or len(newer) < MIN_TESTED:
        raise TooFewJobs(
            f"{keys} different older jobs to learn from and {len(newer)} newer ones to test with are too few: "
            f"it takes {MIN_KEYS} and {MIN_TESTED}; let more jobs finish"
        )
    return list(older), list(newer)


def site(config: Config, known: Sequence[Case]) -> tuple[Site, dict[str, str]]:
    """What is known of the GPU types of the configuration and of ``known`` jobs, by type, and each partition's type."""
    type_of = {part.name: part.gpu_type or part.name for part in config.partition}
    type_of |= {case.label.outcome.partition: case.type for case in known}
    power_w = {type_of[part.name]: part.prior_power_w for part in config.partition}
    types = [*type_of.values(), *(case.type for case in known)]  # a partition may have several, or have had none
    return Site({gpu_type: gpu_type for gpu_type in types}, power_w), type_of
