"""What is predicted of a job, each target as a logarithm; ``probe.targets`` of the configuration says which are.

Carbon and water aren't among them: they follow from energy (:mod:`slurmcast.footprint`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from slurmcast.probe.examples import Sample
from slurmcast.probe.features import Array

TARGETS: Mapping[str, Callable[[Sample], float | None]] = {
    "time": lambda sample: sample.log_time,
    "energy": lambda sample: sample.log_energy,
    "memory": lambda sample: sample.log_memory,
}
"""Natural logarithms of s, of kWh of all the job's GPUs, and of GB of the GPU that uses most; None: not measured."""


def truths(samples: Sequence[Sample]) -> dict[str, Array]:
    """What was measured of each target, (n,) each, NaN where nothing was."""
    return {
        target: np.array([np.nan if (value := of(sample)) is None else value for sample in samples])
        for target, of in TARGETS.items()
    }
