"""What was decided about each pending job, as arrays; and the same in words, for the jobs that are asked for.

Shapes: n pending jobs in the order of submission, m partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from slurmcast.agent.known import Known
from slurmcast.model import Decision, May, Value
from slurmcast.policy.base import Floats, Ints

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


# By plain numbers: queues are long, and an enum takes long to look its members up.
_SENTENCES: dict[int, str] = {
    Case.LEFT_ALONE: "{why}",
    Case.UNKNOWN: "How long the job will run isn't known, so it keeps its partition and a place in the middle.",
    Case.STAYS: "Ordered by its value on {target}. {why}",
    Case.ONLY_CHOICE: "{target} is the only choice, and it {where}.{why}",
    Case.KEPT_OFF: "It waits on {target}; on {rival}, GPUs are kept for a job that has waited too long.",
    Case.WAITS_FOR_BETTER: "It waits for {target}, which is better for it than {rival} now.",
    Case.BEST: "{target} has the best value for it, and it {where}.",
    Case.NO_ROOM: "It fits on {target} now; the partition of better value has no room.",
    Case.HARDLY_BETTER: "It waits on {target}; another partition is hardly better.",
}
_SAY_WHERE = frozenset(int(case) for case in Case if "{where}" in _SENTENCES[case])
_SAY_WHY = frozenset(int(case) for case in Case if "{why}" in _SENTENCES[case])


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
    fits_now: list[bool]
    lacks_power: list[bool]
    """Who waits because of the cap on power."""
    case: list[int]
    """Why, as a :class:`Case`."""
    rival: list[int]
    """The best partition that the policy keeps the job off; -1 where the case names none."""
    rank: list[int | None]
    """Place on its partition; None where the job is left alone."""
    factor: list[int]
    """Site factor; 0 where the job is left alone."""
    changed: frozenset[int] = frozenset()
    """Places of those of which Slurm is asked for a change."""

    def __len__(self) -> int:
        return len(self.case)

    def __iter__(self) -> Iterator[Decision]:
        return self.of(range(len(self)))

    def __getitem__(self, place: int) -> Decision:
        return next(self.of([place]))

    def __eq__(self, other: object) -> bool:
        """Alike in every decision."""
        return tuple(self) == tuple(other) if isinstance(other, Decisions | tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def job_ids(self) -> list[int]:
        """Of all n jobs."""
        return [p.job.job_id for p in self.known.pending]

    def lines(self) -> dict[str, list[tuple[int, int]]]:
        """By where they are to be, the ranked jobs, each at its rank: ids, and what they are to have, a site factor or
        a priority."""
        base = PIN_BASE if self.pinned else 0
        placed = zip(self.rank, self.targets, self.job_ids, self.factor, strict=True)
        lines: dict[str, list[tuple[int, int]]] = {}
        for _, target, job_id, factor in sorted(place for place in placed if place[0] is not None):
            lines.setdefault(target, []).append((job_id, base + factor))
        return lines

    def marks(self) -> list[Hashable]:
        """Something for each job that differs where its decision does, but for ``at``, ``changed`` and what
        :meth:`lines` say: who arrives near the top moves all below by one."""
        queue, unknown = self.known.queue, np.isnan(self.v)
        used = (queue.gpus, queue.time_s, queue.energy_kwh, self.kappa, self.v, self.weights)
        figures = np.hstack([np.where(unknown, np.nan, array) for array in used]).tobytes()
        size = len(used) * 8 * len(self.names)
        bits = [figures[place * size : (place + 1) * size] for place in range(len(self))]
        told = [fits and case in _SAY_WHERE for fits, case in zip(self.fits_now, self.case, strict=True)]
        submitted = [p.job.submit_time for p in self.known.pending]
        words = self.targets, self.case, told, self.lacks_power, self.rival, self.known.verdicts
        return [(self.pinned, *mark) for mark in zip(submitted, *words, bits, strict=True)]

    def of(self, places: Sequence[int]) -> Iterator[Decision]:
        """The decisions at these places."""
        at = np.array(places, np.int64)
        for place, values in zip(places, self._values(at), strict=True):
            job, (site_factor, priority) = self.known.pending[place].job, self.setting(place)
            yield Decision(
                job.job_id,
                job.submit_time,
                self.at,
                self.targets[place],
                self.reason(place),
                rank=self.rank[place],
                site_factor=site_factor,
                priority=priority,
                verdicts=self.known.verdicts[place],
                values=values,
                changed=place in self.changed,
            )

    def _values(self, at: Ints) -> Iterator[tuple[Value, ...]]:
        """What went into the values of the jobs at these places."""
        queue = self.known.queue
        unknown = np.isnan(queue.energy_kwh)
        used = (queue.gpus.astype(np.int64), queue.time_s, queue.energy_kwh, unknown, self.kappa, self.v, self.weights)
        for a, t, e, gap, kappa, v, weight in zip(*(array[at].tolist() for array in used), strict=True):
            yield tuple(
                [
                    Value(name, a[j], t[j], None if gap[j] else e[j], kappa[j], v[j], weight[j])
                    for j, name in enumerate(self.names)
                    if v[j] == v[j]  # not NaN
                ]
            )

    def setting(self, place: int) -> tuple[int | None, int | None]:
        """The site factor or the priority that the job is to have; None for the other, or for both."""
        factor = self.factor[place]
        if not factor:
            return None, None
        return (None, PIN_BASE + factor) if self.pinned else (factor, None)

    def reason(self, place: int) -> str:
        """One sentence for the user, or two."""
        case, rival = self.case[place], self.rival[place]
        sentence = _SENTENCES[case].format(
            target=self.targets[place],
            where="fits there now" if self.fits_now[place] else "waits there",
            rival=self.names[rival] if rival >= 0 else "",
            why=self._why(place) if case in _SAY_WHY else "",
        )
        return sentence + (LACKS_POWER if self.lacks_power[place] else "")

    def _why(self, place: int) -> str:
        """What eligibility says."""
        verdicts, case = self.known.verdicts[place], self.case[place]
        if case == Case.LEFT_ALONE:
            return f"Left alone: {verdicts[0].reason}" if verdicts else "slurmcast manages no partition."
        if case == Case.STAYS:
            return next(verdict.reason for verdict in verdicts if verdict.may is May.ORDER_ONLY)
        return "".join([f" Not on {v.partition}: {v.reason}" for v in verdicts if v.partition != self.targets[place]])
