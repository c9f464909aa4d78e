"""What a node reports of one run of a job, and how the records of all its nodes make the run's energy. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from enum import StrEnum

from slurmcast.model import J_PER_KWH, MOST, Outcome

MAX_GAP_SHARE = 0.01
"""A run of which more time than this is unknown on a GPU has no energy."""
SLACK_S = 60.0
"""What the ends of a run may differ between the meter and Slurm's accounting: prolog, epilog, clocks."""


class Ending(StrEnum):
    """How the meter learned that a run was over."""

    EPILOG = "epilog"
    GONE = "gone"
    """Slurm doesn't know it as running any more; its epilog never ran. Its end is the last sign of work on its GPUs."""
    REBOOT = "reboot"
    """The node went down; the run's end is the last reading."""


class Method(StrEnum):
    """What measured most of the time."""

    COUNTER = "counter"
    SAMPLED = "sampled"
    EMULATED = "emulated"
    """Nothing did: a stand-in's figure, as in the demo."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What one GPU used during the run."""

    uuid: str
    energy_j: float
    """Measured; of the time that is no gap."""
    method: Method
    counted_s: float
    sampled_s: float
    gap_s: float
    mean_power_w: float | None
    peak_power_w: float | None
    peak_memory_gb: float | None
    """In 2^30 bytes, as cards are sold."""
    utilisation: float | None
    """Mean share of time in which a kernel ran, 0 to 1."""


@dataclass(frozen=True, slots=True)
class EnergyRecord:
    """One run of one job on one node. Times are Unix seconds."""

    cluster: str
    job_id: int
    start_time: int
    """As Slurm has it: with job and node it names the record."""
    node: str
    nodes: int
    """How many nodes the job has."""
    began: float
    ended: float
    ending: Ending
    gpus: int
    """Those of the job on this node."""
    shared: str
    """Why the energy can't be attributed to the job; empty where it can."""
    used: tuple[GpuUse, ...]
    host_energy_j: float | None = None
    """Of the node's processors and memory, beside the GPUs'; None where not measured or not the job's alone."""

    @property
    def name(self) -> str:
        """A file name of its own."""
        return f"{self.cluster}-{self.job_id}-{self.start_time}-{self.node}.json"

    @property
    def energy_j(self) -> float | None:
        """The node's share; None where it isn't the job's alone or too much of the time is unknown."""
        duration_s = self.ended - self.began
        whole = all(use.gap_s <= MAX_GAP_SHARE * duration_s for use in self.used)
        if self.shared or not whole or len(self.used) != self.gpus or self.ending is Ending.REBOOT or not duration_s:
            return None
        return sum(use.energy_j for use in self.used)

    @property
    def fault(self) -> str:
        """What is impossible about the record; empty where nothing is."""
        values = [value for use in self.used for value in astuple(use) if isinstance(value, float)]
        numbers = [self.began, self.ended, self.host_energy_j or 0.0, *values]
        if not all(0 <= number <= MOST for number in numbers) or self.ended < self.began:  # nor NaN
            return "times and energies must be finite and not negative"
        if max(self.job_id, self.nodes, self.start_time, self.gpus) > MOST:
            return "job_id, nodes, start_time and gpus must be numbers that Slurm can have"
        if min(self.job_id, self.nodes) < 1 or self.start_time < 0 or self.gpus < len(self.used):
            return "job_id and nodes must be at least 1, and gpus no fewer than used"
        return "" if self.node and "/" not in self.name else "node and cluster must be names"


def join(outcome: Outcome, records: Iterable[EnergyRecord]) -> Outcome:
    """The outcome with the energy of all its nodes in kWh; unchanged where one hasn't reported, or has no energy.

    Only records of the run's own start and end count, and their GPUs must be those that Slurm allocated: a job on
    shards of a GPU has none by Slurm's word.
    """
    mine = {r.node: r for r in records if r.job_id == outcome.job_id and _is_of(r, outcome)}
    if not mine or len(mine) != max(r.nodes for r in mine.values()):
        return outcome
    outcome = replace(outcome, host_energy_kwh=_kwh(r.host_energy_j for r in mine.values()))
    energy_kwh = _kwh(r.energy_j for r in mine.values())
    if energy_kwh is None or sum(r.gpus for r in mine.values()) != outcome.gpus:
        return outcome
    uses = [use for r in mine.values() for use in r.used]
    peak_gb = _each(use.peak_memory_gb for use in uses)
    shares = _each(use.utilisation for use in uses)
    return replace(
        outcome,
        energy_kwh=energy_kwh,
        energy_method=", ".join(sorted({use.method for use in uses})),
        gpu_memory_gb=max(peak_gb) if peak_gb else outcome.gpu_memory_gb,
        gpu_utilisation=sum(shares) / len(shares) if shares else outcome.gpu_utilisation,
    )


def is_measured(outcome: Outcome) -> bool:
    """Whether its energy is what meters measured of its GPUs."""
    return outcome.energy_method != "" and set(outcome.energy_method.split(", ")) <= {Method.COUNTER, Method.SAMPLED}


def filled(known: Outcome, told: Outcome) -> Outcome:
    """``known`` with what was measured and comes only now; what is there already stays."""
    energy = told if known.energy_kwh is None else known
    return replace(
        known,
        energy_kwh=energy.energy_kwh,
        energy_method=energy.energy_method,
        host_energy_kwh=_first(known.host_energy_kwh, told.host_energy_kwh),
        gpu_memory_gb=_first(known.gpu_memory_gb, told.gpu_memory_gb),
        gpu_utilisation=_first(known.gpu_utilisation, told.gpu_utilisation),
    )


def _kwh(joules: Iterable[float | None]) -> float | None:
    """The sum, where each is known."""
    parts = _each(joules)
    return sum(parts) / J_PER_KWH if parts else None


def _each(values: Iterable[float | None]) -> list[float]:
    """All of them where each is known, else none."""
    listed = list(values)
    return [] if None in listed else [value for value in listed if value is not None]


def _first(one: float | None, other: float | None) -> float | None:
    return other if one is None else one


def _is_of(record: EnergyRecord, outcome: Outcome) -> bool:
    """Whether the record covers that run. Where the end was guessed, it must be right as far as gaps must."""
    slack_s = SLACK_S if record.ending is Ending.EPILOG else MAX_GAP_SHARE * outcome.elapsed_s
    started = abs(record.start_time - outcome.start_time) <= SLACK_S
    return started and abs(record.ended - outcome.end_time) <= slack_s
