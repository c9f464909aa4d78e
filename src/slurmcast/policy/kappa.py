"""Which kappa holds for a job on a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slurmcast.policy.base import Floats


@dataclass(frozen=True, slots=True)
class Kappas:
    """Weights of energy in 1/(GPU s kWh). The job's QOS comes before the partition, which often nobody chose, and both
    before what holds in general."""

    general: float
    partition: dict[str, float] = field(default_factory=dict)
    qos: dict[str, float] = field(default_factory=dict)

    def of(self, partition: str, qos: str) -> float:
        """What holds for a job of that QOS on that partition."""
        return self.qos.get(qos, self.partition.get(partition, self.general))

    def matrix(self, qos: Sequence[str], partitions: Sequence[str]) -> Floats:
        """What holds for n jobs by their QOS on m partitions, (n, m)."""
        found = [[self.of(partition, name) for partition in partitions] for name in qos]
        return np.array(found, np.float64).reshape(len(qos), len(partitions))
