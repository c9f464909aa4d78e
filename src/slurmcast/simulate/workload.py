"""What is simulated: jobs with what is true and what is predicted of them, and a cluster of pools of GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurmcast.policy.base import Floats, Mask


@dataclass(frozen=True)
class Cluster:
    """Pools of GPUs of one type each. Borders of nodes aren't simulated."""

    types: tuple[str, ...]
    """The most powerful type first."""
    gpus: Floats
    """GPUs of each type, (m,)."""
    idle_power_w: Floats
    """What a GPU of each type draws while it does nothing, (m,)."""


@dataclass(frozen=True)
class Workload:
    """n jobs on m types, in the order of submission. Times in s, energies in kWh of all of a job's GPUs."""

    submit_s: Floats
    """(n,)."""
    gpus: Floats
    """a_ij, (n, m)."""
    may: Mask
    """Whether each may run on the type, (n, m); every job may run somewhere."""
    time_s: Floats
    """t_ij as it would truly be, (n, m); whatever where the job may not run."""
    energy_kwh: Floats
    """e_ij as it would truly be, (n, m); NaN where no measurement or model says."""
    predicted_s: Floats
    """The predicted median of t_ij, (n, m); NaN where unknown."""
    high_s: Floats
    """The predicted 0.9 quantile of t_ij, (n, m)."""
    predicted_kwh: Floats
    """The predicted median of e_ij, (n, m); NaN where unknown."""
    limit_s: Floats
    """The user's time limit, (n,); infinite where there is none. Jobs aren't killed at it."""
    user: tuple[str, ...] = ()
    """Who submitted each; empty where that isn't known."""

    def __post_init__(self) -> None:
        """Raises ValueError where a job could not be simulated."""
        if (np.diff(self.submit_s) < 0).any():
            raise ValueError("jobs must be in the order of submission")
        if not (self.may.any(axis=1)).all():
            raise ValueError(f"job {int(self.may.any(axis=1).argmin())} may run nowhere")
        sound = ~self.may | (np.isfinite(self.time_s) & (self.time_s > 0) & (self.gpus >= 1))
        if not sound.all():
            raise ValueError(f"job {int(sound.all(axis=1).argmin())}: a running time or number of GPUs isn't positive")

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, jobs: np.ndarray) -> Workload:
        """Those jobs alone; ``jobs``: indexes, rising, or a mask (n,)."""
        index = np.flatnonzero(jobs) if jobs.dtype == np.bool_ else jobs
        arrays = {name: value[index] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays, user=tuple(self.user[i] for i in index) if self.user else ())


@dataclass(frozen=True)
class Schedule:
    """When and where each job ran."""

    start_s: Floats
    """(n,)."""
    type: np.ndarray
    """Index of the GPU type, (n,)."""
