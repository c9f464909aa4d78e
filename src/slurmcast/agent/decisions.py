"""What was decided about each pending job, as arrays; and the same in words, for the jobs that are asked for.

Shapes: n pending jobs in the order of submission, m partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from slurmcast.agent.known import Known
from slurmcast.model import Decision, May, Value
from slurmcast.policy.base import Floats, Ints, Mask

PIN_BASE = 1_000_000
"""With ``priority_mode = "pin"``, priorities start here: above what multifactor weights usually add up to."""
LACKS_POWER = " Started now, it would bring the predicted power above the site's cap."


class Case(IntEnum):
    """Why a job is where it is; of those that hold, the first counts."""

    LEFT_ALONE = 0
    UNKNOWN = 1
    STAYS = 2
    ONLY_CHOICE = 3
    KEPT_OFF = 4
    """The policy keeps it off a partition of better value."""
    WAITS_FOR_BETTER = 5
    BEST = 6
    NO_ROOM = 7
    HARDLY_BETTER = 8


@dataclass(frozen=True, eq=False)
class Decisions:
    """A sequence of n decisions, each made when it is asked for: a queue is long, and what is new in it is short."""

    at: float
    pinned: bool
    """Whether priorities are set rather than site factors."""
    names: list[str]
    """Of the m partitions."""
    known: Known
    kappa: Floats
    """(n, m)."""
    v: Floats
    """The paper's values, (n, m); NaN where there is none."""
    weights: Floats
    """What energies were multiplied by, (n, m)."""
    targets: list[str]
    """The partition for each job, or the several that it keeps, with commas."""
    fits_now: Mask
    """(n,)."""
    lacks_power: Mask
    """Who waits because of the cap on power, (n,)."""
    case: Ints
    """Why, as a :class:`Case`, (n,)."""
    rival: Ints
    """The best partition that the policy keeps the job off, (n,); -1 where the case names none."""
    rank: Ints
    """Place on its partition, (n,); -1 where the job is left alone."""
    factor: Ints
    """Site factor, (n,); 0 where the job is left alone."""
    changed: frozenset[int] = frozenset()
    """Places of those of which Slurm is asked for a change."""

    def __len__(self) -> int:
        return len(self.case)

    def __iter__(self) -> Iterator[Decision]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Alike in every decision."""
        return tuple(self) == tuple(other) if isinstance(other, Decisions | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, place: int) -> Decision:
        job, rank = self.known.pending[place].job, int(self.rank[place])
        site_factor, priority = self.setting(place)
        return Decision(
            job.job_id,
            job.submit_time,
            self.at,
            self.targets[place],
            self.reason(place),
            rank=rank if rank >= 0 else None,
            site_factor=site_factor,
            priority=priority,
            verdicts=self.known.verdicts[place],
            values=self._values(place),
            changed=place in self.changed,
        )

    @property
    def job_ids(self) -> list[int]:
        """Of all n jobs."""
        return [p.job.job_id for p in self.known.pending]

    def marks(self) -> list[Hashable]:
        """Something for each job that differs where its decision does, but for ``at`` and ``changed``."""
        queue, unknown = self.known.queue, np.isnan(self.v)
        used = (queue.gpus, queue.time_s, queue.energy_kwh, self.kappa, self.v, self.weights)
        figures = np.hstack([np.where(unknown, np.nan, array) for array in used]).tobytes()
        size = len(used) * 8 * len(self.names)
        bits = [figures[place * size : (place + 1) * size] for place in range(len(self))]
        told = self.fits_now & np.isin(self.case, (Case.ONLY_CHOICE, Case.BEST))
        codes = np.column_stack([self.case, told, self.lacks_power, self.rival, self.rank, self.factor])
        submitted = [p.job.submit_time for p in self.known.pending]
        return list(zip(submitted, self.targets, map(tuple, codes.tolist()), bits, self.known.verdicts, strict=True))

    def _values(self, place: int) -> tuple[Value, ...]:
        queue = self.known.queue
        found = []
        for j in np.flatnonzero(~np.isnan(self.v[place])).tolist():
            gpus, energy_kwh = int(queue.gpus[place, j]), float(queue.energy_kwh[place, j])
            found.append(
                Value(
                    self.names[j],
                    gpus,
                    float(queue.time_s[place, j]),
                    None if np.isnan(energy_kwh) else energy_kwh,
                    float(self.kappa[place, j]),
                    float(self.v[place, j]),
                    float(self.weights[place, j]),
                )
            )
        return tuple(found)

    def setting(self, place: int) -> tuple[int | None, int | None]:
        """The site factor or the priority that the job is to have; None for the other, or for both."""
        factor = int(self.factor[place])
        if not factor:
            return None, None
        return (None, PIN_BASE + factor) if self.pinned else (factor, None)

    def reason(self, place: int) -> str:
        """One sentence for the user, or two."""
        return self._because(place) + (LACKS_POWER if self.lacks_power[place] else "")

    def _because(self, place: int) -> str:
        target, verdicts = self.targets[place], self.known.verdicts[place]
        where = "fits there now" if self.fits_now[place] else "waits there"
        rival = self.names[self.rival[place]] if self.rival[place] >= 0 else ""
        match Case(self.case[place]):
            case Case.LEFT_ALONE:
                return f"Left alone: {verdicts[0].reason}" if verdicts else "slurmcast manages no partition."
            case Case.UNKNOWN:
                return "How long the job will run isn't known, so it keeps its partition and a place in the middle."
            case Case.STAYS:
                only = next(verdict.reason for verdict in verdicts if verdict.may is May.ORDER_ONLY)
                return f"Ordered by its value on {target}. {only}"
            case Case.ONLY_CHOICE:
                elsewhere = [f"Not on {v.partition}: {v.reason}" for v in verdicts if v.partition != target]
                return " ".join([f"{target} is the only choice, and it {where}.", *elsewhere])
            case Case.KEPT_OFF:
                return f"It waits on {target}; on {rival}, GPUs are kept for a job that has waited too long."
            case Case.WAITS_FOR_BETTER:
                return f"It waits for {target}, which is better for it than {rival} now."
            case Case.BEST:
                return f"{target} has the best value for it, and it {where}."
            case Case.NO_ROOM:
                return f"It fits on {target} now; the partition of better value has no room."
            case Case.HARDLY_BETTER:
                return f"It waits on {target}; another partition is hardly better."
