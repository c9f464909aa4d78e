"""The words of labelling: plain frozen data. Energy in kWh is None where nothing says how much it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from slurmcast.model import HOUR_S, GpuRequest

ROUNDING = 1 + 1e-9
"""Sums of the same costs in another order may differ by less."""


@dataclass(frozen=True, slots=True)
class Work:
    """A script with its arguments, read."""

    path: Path
    arguments: tuple[str, ...]
    key: str
    """:attr:`slurmcast.model.Reading.key`: other sources or arguments make it another work."""
    options: Mapping[str, str]
    """What its directives say, by sbatch's long names."""
    gpus: int
    nodes: int
    request: GpuRequest | None
    limit_s: int | None
    refusal: str = ""
    """Why it can't be labelled; empty: it can."""

    @property
    def name(self) -> str:
        """As people call it."""
        return " ".join([self.path.name, *self.arguments])


@dataclass(frozen=True, slots=True)
class Place:
    """A partition, as far as it matters to plans. Power of one GPU in W."""

    name: str
    types: frozenset[str]
    """Of its GPUs as Slurm's GRES has them; empty where they have none."""
    gpus_per_node: int
    """Of its largest node."""
    default_limit_s: int | None
    """What a job without a time limit gets; None: no limit."""
    whole_nodes: bool = False
    """Whether it gives every job all of its nodes (slurm.conf: OverSubscribe=EXCLUSIVE)."""
    mean_w: float | None = None
    most_w: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """GPU hours and energy of GPUs."""

    gpu_hours: float = 0.0
    kwh: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        unknown = self.kwh is None or other.kwh is None
        return Cost(self.gpu_hours + other.gpu_hours, None if unknown else (self.kwh or 0) + (other.kwh or 0))

    def fits(self, budget: Budget) -> bool:
        """Whether it isn't more than ``budget``; an unknown energy fits in no budget of energy."""
        if budget.gpu_hours is not None and self.gpu_hours > budget.gpu_hours * ROUNDING:
            return False
        return budget.kwh is None or (self.kwh is not None and self.kwh <= budget.kwh * ROUNDING)


def cost(gpus: int, seconds: float, power_w: float | None) -> Cost:
    """Of ``gpus`` GPUs over ``seconds`` at ``power_w`` each."""
    hours = gpus * seconds / HOUR_S
    return Cost(hours, None if power_w is None else hours * power_w / 1000)


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent; None: no bound."""

    gpu_hours: float | None = None
    kwh: float | None = None


NO_BOUND = Budget()


@dataclass(frozen=True, slots=True)
class Cell:
    """One script on one partition."""

    work: Work
    partition: str
    gpus: int
    """That the job is allocated, which may be more than it asks for."""
    limit_s: int
    options: tuple[str, ...] = ()
    """Further words for sbatch, which make the request one that the partition can meet."""
    expected_s: float | None = None
    """By the estimate; None where there is none."""
    mean_w: float | None = None
    most_w: float | None = None

    @property
    def id(self) -> tuple[str, str]:
        """What it is known by over several calls."""
        return self.work.key, self.partition

    def at_most(self, runs: int = 1) -> Cost:
        """What ``runs`` runs can cost: their whole time limit at the GPUs' highest power."""
        return cost(self.gpus, runs * self.limit_s, self.most_w)

    def expected(self, runs: int = 1) -> Cost:
        """What ``runs`` runs will cost, as far as can be said: without an estimate, their time limit."""
        return cost(self.gpus, runs * (self.expected_s or self.limit_s), self.mean_w)


class End(StrEnum):
    """What an ended run means for its cell."""

    COUNTS = "counts"
    FAILED = "failed"
    """The script's own fault: it would fail again."""
    AGAIN = "again"
    """A node's or the site's fault: it is tried again."""
    CANCELLED = "cancelled"


_ENDS = {
    "COMPLETED": End.COUNTS,
    "FAILED": End.FAILED,
    "TIMEOUT": End.FAILED,
    "OUT_OF_MEMORY": End.FAILED,
    "DEADLINE": End.FAILED,
    "NODE_FAIL": End.AGAIN,
    "BOOT_FAIL": End.AGAIN,
    "LAUNCH_FAILED": End.AGAIN,
    "PREEMPTED": End.AGAIN,
    "REQUEUED": End.AGAIN,
    "REVOKED": End.CANCELLED,
    "CANCELLED": End.CANCELLED,
}
"""By Slurm's job states (man sacct)."""


def end(state: str) -> End | None:
    """What Slurm's ``state`` means; None while the run isn't over."""
    return _ENDS.get(state)


@dataclass(frozen=True, slots=True)
class Batch:
    """One job array: the runs of a cell that were submitted together. ``at``: Unix seconds."""

    id: str
    at: float
    key: str
    script: str
    arguments: tuple[str, ...]
    partition: str
    runs: int
    gpus: int
    limit_s: int
    mean_w: float | None
    most_w: float | None
    job_id: int = 0
    """The array's; 0 while Slurm hasn't said it."""
    refused: str = ""
    """Why Slurm didn't take it."""

    @property
    def cell(self) -> tuple[str, str]:
        """The :attr:`Cell.id` that it belongs to."""
        return self.key, self.partition

    @property
    def one_at_most(self) -> Cost:
        """What one of its runs can cost."""
        return cost(self.gpus, self.limit_s, self.most_w)


@dataclass(frozen=True, slots=True)
class Run:
    """One run that is over. ``start``: Unix seconds, 0 where it never started; ``at``: when that was noticed."""

    batch: str
    array: int
    """The id of its job array, in which it is number ``task``."""
    task: int
    job_id: int
    """Its own raw id, under which slurmcast's store has it."""
    start: int
    state: str
    elapsed_s: float
    gpus: int
    at: float = 0.0
    final: bool = True
    """False where Slurm has put it into the queue again."""
    exit_code: str = ""
    nodes: str = ""
    energy_kwh: float | None = None
    is_label: bool = False
    """Whether slurmcast learns from it."""

    @property
    def end(self) -> End:
        return end(self.state) or End.AGAIN


def spent(runs: Sequence[Run], batches: Mapping[str, Batch]) -> Cost:
    """What runs have used: measured energy where there is some, else that of a GPU's mean power."""
    total = Cost()
    for run in runs:
        batch = batches.get(run.batch)  # None where its line can't be read any more
        guess = cost(run.gpus, run.elapsed_s, batch.mean_w if batch else None)
        total += guess if run.energy_kwh is None else Cost(guess.gpu_hours, run.energy_kwh)
    return total
