"""What every case of the meter is made of: cards that draw power over time, and energies beside the true ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast.meter.record import EnergyRecord, join
from slurmcast.model import J_PER_KWH, Outcome
from tests.unit.meter_world import EPOCH, Node

GIB = 2**30
BUSY = [
    (0, 60, 1 * GIB, 0), (10, 60, 1 * GIB, 0), (12, 320, 30 * GIB, 0.9), (100, 280, 31 * GIB, 0.95),
    (100, 390, 40 * GIB, 1), (200, 350, 40 * GIB, 1), (200, 60, 1 * GIB, 0),
]  # fmt: skip
"""A job from about 10 s to 200 s: it warms up, has two phases, and stops."""
OTHER = [(0, 50, GIB, 0), (30, 50, GIB, 0), (30, 250, 9 * GIB, 0.5), (90, 410, 9 * GIB, 0.7), (140, 50, GIB, 0)]
PAUSED = [(0, 60), (12, 300, GIB, 1), (80, 300, GIB, 1), (80, 75), (150, 75), (150, 320, GIB, 1)]
STEADY = [(0, 200), (300, 260)]
BEGIN_S, END_S = 10.3, 200.6
"""Of most jobs: the meter looks at other times."""
DURATION_S = END_S - BEGIN_S


@dataclass(frozen=True, slots=True)
class Checked:
    """Measured against true joules; None: not known, or nobody's own."""

    measured_j: float | None
    true_j: float | None

    @property
    def error(self) -> float:
        """Relative error; infinite where only one of the two is known."""
        if self.measured_j is None or self.true_j is None:
            return 0.0 if self.measured_j is self.true_j else float("inf")
        return abs(self.measured_j - self.true_j) / max(self.true_j, 1e-9)


Case = Callable[[Path], Iterator[Checked]]


def outcome(record: EnergyRecord, **fields: Any) -> Outcome:
    """What Slurm's accounting says of the run that a record is of."""
    base: dict[str, Any] = {
        "job_id": record.job_id, "submit_time": EPOCH, "partition": "a100", "gpu_type": "a100", "gpus": record.gpus,
        "state": "COMPLETED", "start_time": record.start_time, "end_time": round(record.ended),
        "elapsed_s": record.ended - record.began,
    }  # fmt: skip
    return Outcome(**{**base, **fields})


def joined_j(out: Outcome, *records: EnergyRecord) -> float | None:
    energy_kwh = join(out, records).energy_kwh
    return None if energy_kwh is None else energy_kwh * J_PER_KWH


def drawn(folder: Path, *curves: list[tuple[float, ...]], name: str = "a100-1", **card: Any) -> Node:
    """A node with one card for each curve (BUSY, where none is given). ``card``: what else is true of each of them."""
    node = Node(folder, gpus=len(curves or (BUSY,)), name=name)
    for gpu, curve in enumerate(curves or (BUSY,)):
        node.gpus[gpu].draw(curve)
        for fact, value in card.items():
            setattr(node.gpus[gpu], fact, value)
    return node
