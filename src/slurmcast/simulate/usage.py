"""What users have used of late: GPU seconds that lose half of their weight in a half-life, as Slurm counts them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slurmcast.model import DAY_S
from slurmcast.policy.base import Floats, Ints

HALF_LIFE_S = 7 * DAY_S
"""PriorityDecayHalfLife, by Slurm's default."""


class Usage:
    """Of all users, counted up to the last moment that was asked for. Moments don't go back."""

    def __init__(self, users: Sequence[str]) -> None:
        """``users``: whose each job is."""
        names, self._of_job = np.unique(np.array(users), return_inverse=True)
        self._used, self._in_use = np.zeros(len(names)), np.zeros(len(names))
        self._at_s = 0.0

    def occupy(self, job: int, gpus: float, now_s: float) -> None:
        """From now on the job's user has so many GPUs more."""
        self._advance(now_s)
        self._in_use[self._of_job[job]] += gpus

    def of(self, jobs: Ints, now_s: float) -> Floats:
        """What the user of each job has used, as a multiple of an equal share of it all; 0 before anybody ran."""
        self._advance(now_s)
        total = self._used.sum()
        share = self._used[self._of_job[jobs]] * len(self._used)
        result: Floats = share / total if total > 0 else np.zeros(len(jobs))
        return result

    def _advance(self, now_s: float) -> None:
        left = 0.5 ** ((now_s - self._at_s) / HALF_LIFE_S)
        self._used = self._used * left + self._in_use * (1.0 - left) * HALF_LIFE_S / math.log(2)
        self._at_s = now_s
