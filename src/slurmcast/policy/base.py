"""What a policy sees and what it says: a moment of the cluster as arrays, and the pairs (job, type) that it offers.

Shapes: n waiting jobs in the order of submission, m GPU types (the agent's partitions), r running jobs. Times in s,
energy in kWh, quantiles by the predictor. The agent and the simulator ask the same policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting jobs. Predictions are NaN where nothing is known."""

    submit_s: Floats
    """When each was submitted, (n,), never falling."""
    gpus: Floats
    """a_ij: GPUs that each would occupy, (n, m)."""
    may: Mask
    """Whether each may run on the type, (n, m)."""
    time_s: Floats
    """t_ij: median predicted running time, (n, m)."""
    high_s: Floats
    """Its 0.9 quantile, (n, m)."""
    energy_kwh: Floats
    """e_ij: median predicted energy of all the job's GPUs, (n, m)."""
    limit_s: Floats
    """The user's time limit, (n,); infinite where there is none."""
    usage: Floats | None = None
    """What each one's user used of late, as a multiple of an equal share of it all, (n,); None: users aren't known."""

    def __len__(self) -> int:
        return len(self.submit_s)


@dataclass(frozen=True, slots=True)
class Running:
    """The running jobs. An end that a job has outlived lies in the past."""

    type: Ints
    """The index of each one's GPU type, (r,)."""
    gpus: Floats
    """GPUs that each occupies, (r,)."""
    end_s: Floats
    """When each is expected to end by its median predicted time, (r,); NaN where nothing is known."""
    high_s: Floats
    """The same by the 0.9 quantile."""
    limit_s: Floats
    """When each ends at the latest, by its time limit; infinite where there is none."""
    power_w: Floats
    """Mean power of all of each one's GPUs by the predicted medians, e_ij / t_ij; NaN where nothing is known."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All that a decision is made from."""

    now_s: float
    free: Floats
    """c_j: GPUs that are free, (m,)."""
    total: Floats
    """GPUs that there are, (m,)."""
    queue: Queue
    running: Running


@dataclass(frozen=True, slots=True)
class Offers:
    """Pairs (i, j), best first: give job i to type j if it fits and wasn't given away before.

    What isn't offered waits, even where it would fit. How pairs become starts is up to an executor: the paper's passes
    over what doesn't fit, Slurm's keeps GPUs for the first job that doesn't.
    """

    jobs: Ints
    """i of each pair, (p,)."""
    types: Ints
    """j of each pair, (p,)."""
    in_order: bool = False
    """Whether nobody may start before the jobs ahead (head-of-line blocking, as in the paper's Simple rule)."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> Offers:
        """From pairs (i, j)."""
        jobs, types = np.array(pairs, np.int64).reshape(-1, 2).T
        return cls(jobs, types)


class Policy(Protocol):
    """A pure rule."""

    def __call__(self, moment: Moment) -> Offers:
        """The pairs offered in a moment."""
        ...
