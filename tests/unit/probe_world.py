"""A small made-up world of jobs whose truth is known: kinds of work, scripts of each kind, runs with arguments.

Time is proportional to epochs and to a power of the batch size that differs by script; the ratio between the two GPU
types belongs to the kind of work, nearly the same for its scripts. A script's vector lies near its kind's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slurmcast.config import ProbeConfig
from slurmcast.probe import Example, Model, train

DIMENSIONS = 32
PARTITIONS = {"fast": "a100", "slow": "a6000"}
POWER_W = {"a100": 300.0, "a6000": 220.0}
NOISE = 0.03


@dataclass(frozen=True)
class Script:
    """One script and its truth."""

    vector: NDArray[np.float32]
    log_time: float
    log_ratio: float
    batch_exponent: float

    def seconds(self, gpu_type: str, epochs: float, batch_size: float) -> float:
        """True mean time in s."""
        log = self.log_time + math.log(epochs / 20) + self.batch_exponent * math.log(batch_size / 32)
        return math.exp(log + (self.log_ratio if gpu_type == "a6000" else 0.0))


class World:
    """Draws scripts and runs from a seed."""

    def __init__(self, seed: int, kinds: int = 8, scripts: int = 4) -> None:
        self.rng = np.random.default_rng(seed)
        common = self._point(1.0)
        self.scripts: list[Script] = []
        for _ in range(kinds):
            centre = common + self._point(0.75)
            level, ratio = self.rng.normal(5, 1), self.rng.normal(0.25, 0.35)
            for _ in range(scripts):
                self.scripts.append(
                    Script(
                        (centre + self._point(0.5)).astype(np.float32),
                        level + self.rng.normal(0, 0.6),
                        ratio + self.rng.normal(0, 0.05),
                        self.rng.normal(-0.2, 0.1),
                    )
                )

    def _point(self, length: float) -> NDArray[np.float64]:
        return np.asarray(self.rng.normal(size=DIMENSIONS) / math.sqrt(DIMENSIONS) * length)

    def arguments(self) -> dict[str, float]:
        """Arguments of one submission."""
        return {
            "epochs": float(self.rng.choice([5, 10, 20, 40, 80])),
            "batch_size": float(self.rng.choice([16, 32, 64, 128])),
        }

    def run(self, key: str, script: Script, numbers: dict[str, float], partition: str) -> Example:
        """One run, with noise."""
        gpu_type = PARTITIONS[partition]
        time_s = script.seconds(gpu_type, **numbers) * math.exp(self.rng.normal(0, NOISE))
        energy = time_s * POWER_W[gpu_type] / 3.6e6
        return Example(key, script.vector, numbers, 1, partition, gpu_type, time_s, energy)

    def history(self, jobs: int, scripts: list[Script], both: float = 0.2) -> list[Example]:
        """``jobs`` submissions of ``scripts``, each run on one partition, a share of them on both."""
        examples = []
        for number in range(jobs):
            script = scripts[self.rng.integers(len(scripts))]
            numbers = self.arguments()
            where = list(PARTITIONS) if self.rng.random() < both else [list(PARTITIONS)[self.rng.integers(2)]]
            examples += [self.run(f"job {number}", script, numbers, partition) for partition in where]
        return examples


@lru_cache(maxsize=8)
def trained_world(seed: int, jobs: int = 120) -> tuple[World, Model]:
    """A world and the model of the default kind that was trained on its first three scripts of each kind."""
    world = World(seed)
    return world, train(world.history(jobs, known_scripts(world)), ProbeConfig(), encoder="test").model


def known_scripts(world: World) -> list[Script]:
    """The scripts that a :func:`trained_world` has seen."""
    return [script for number, script in enumerate(world.scripts) if number % 4 < 3]


def new_scripts(world: World) -> list[Script]:
    """The scripts, one of each kind, that it hasn't."""
    return world.scripts[3::4]
