"""One job on cards of which something is special, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast.meter.record import Ending, GpuUse, Method
from tests.fake_nvml.script import COUNTER, POWER, UNKNOWN
from tests.unit.meter_base import BEGIN_S, BUSY, DURATION_S, END_S, OTHER, PAUSED, STEADY, Checked, joined_j, outcome
from tests.unit.meter_world import EPOCH, Node


@dataclass(frozen=True, slots=True)
class Single:
    """What is special about the node, whether the job's energy can be known, and what must be true of its GPUs."""

    cards: tuple[dict[str, Any], ...]
    """Fields of each stand-in Card, or ``curve`` (else BUSY), ``fails`` (as Card.fail has it), ``reset_s``, ``mine``:
    whether it is the job's (else True)."""
    known: bool
    says: Callable[..., bool]
    """Of its :class:`GpuUse` in the order of the cards."""
    driver_away_s: tuple[float, float] = (0, 0)
    partly: Callable[[Node, GpuUse], float] | None = None
    """The true energy of that part of the time in which the last card was measured, where that isn't all."""


def counted(gpu: GpuUse) -> bool:
    return gpu.method is Method.COUNTER


SINGLE: dict[str, Single] = {
    "one GPU": Single(
        ({},), True,
        lambda gpu: (gpu.method, gpu.gap_s, gpu.peak_memory_gb) == (Method.COUNTER, 0, 40)
        and abs(gpu.peak_power_w - 390) < 2 and abs(gpu.mean_power_w - gpu.energy_j / DURATION_S) < 3
        and 0.9 < gpu.utilisation < 0.98,
    ),
    # NVML's order isn't that of the device files: the job's numbers are those of the files.
    "several GPUs": Single(
        ({"minor": 2, "mine": False}, {"minor": 0, "curve": OTHER}, {"minor": 1, "curve": STEADY}), True,
        lambda *gpus: [gpu.uuid[:12] for gpu in gpus] == ["GPU-00000001", "GPU-00000002"],
    ),
    "GPU lost": Single(
        ({}, {"curve": OTHER, "fails": (80,)}), False, lambda sound, lost: sound.gap_s == 0 and 119 < lost.gap_s < 123,
        partly=lambda node, lost: node.joules(BEGIN_S, END_S - lost.gap_s, 1),  # and no 0 W from then on
    ),
    "counter reset": Single(({"reset_s": 90.4},), True, lambda gpu: counted(gpu) and 0 < gpu.sampled_s < 2),
    "counter wraps": Single(({"wrap_j": 20_000},), True, lambda gpu: counted(gpu) and gpu.gap_s == 0),
    "counter missing: sampling": Single(
        ({"counts": 0},), True, lambda gpu: gpu.method is Method.SAMPLED and gpu.counted_s == 0
    ),
    # An A100 shows the power of the last 25 ms of each 100 ms.
    "sampling window of a quarter": Single(
        ({"counts": 0, "window_s": 0.025, "period_s": 0.1},), True, lambda gpu: gpu.method is Method.SAMPLED
    ),
    # What is between two good readings is bridged where that is honest.
    "single readings missing": Single(
        (
            {"fails": (50, 53, UNKNOWN)}, {"fails": (50, 53, UNKNOWN, POWER), "counts": 0},
            {"fails": (60, 90, UNKNOWN, COUNTER)},
        ), True, lambda *gpus: all(gpu.gap_s == 0 for gpu in gpus),
    ),
    # A card that doesn't count, and says nothing for so long.
    "half a minute missing": Single(
        ({"fails": (50, 80, UNKNOWN), "counts": 0},), False, lambda gpu: 30 <= gpu.gap_s <= 32,
        partly=lambda node, gpu: node.joules(BEGIN_S, END_S) - node.joules(49.3, 80.3),
    ),
    # The counter begins anew with the driver.
    "driver restart": Single(
        ({"reset_s": 124.7},), True, lambda gpu: gpu.gap_s == 0 and 4 < gpu.sampled_s < 8, (120.2, 124.7)
    ),
    # After a long absence it is beyond what it was: it began anew all the same.
    "driver away for long": Single(
        ({"reset_s": 21, "counter_j": 0},), False, lambda gpu: gpu.gap_s > 30, (20.2, 50.7)
    ),
    # Suspended, a job keeps its GPUs: what they draw is its own.
    "suspended": Single(({"curve": PAUSED},), True, lambda gpu: gpu.gap_s == 0),
    # It was kept for the job: its idle power isn't 0.
    "idle card": Single(({"curve": [(0, 52.0)]},), True, lambda gpu: gpu.utilisation == 0),
}  # fmt: skip


def single(case: Single, folder: Path) -> Iterator[Checked]:
    """The energy of the job, of the run as Slurm accounts for it, and of each GPU."""
    node = Node(folder, gpus=len(case.cards))
    node.told.unloaded_s = case.driver_away_s
    for gpu, facts in zip(node.gpus, case.cards, strict=False):
        gpu.draw(facts.get("curve", BUSY))
        for fact, value in facts.items():
            if fact == "fails":
                gpu.fail(*value)
            elif fact == "reset_s":
                gpu.resets_s[0] = value
            elif fact not in ("curve", "mine"):
                setattr(gpu, fact, value)
    mine = [number for number, facts in enumerate(case.cards) if facts.get("mine", True)]
    numbers = ",".join(str(node.gpus[number].minor) for number in mine)
    (record,) = node.play(f"{BEGIN_S} begin 7 {numbers}", f"{END_S} end 7", "203")
    assert (record.ending, record.start_time, record.gpus) == (Ending.EPILOG, EPOCH + 10, len(mine))
    used = sorted(record.used, key=lambda gpu: gpu.uuid)
    assert case.says(*used), used
    true_j = node.joules(BEGIN_S, END_S, *mine) if case.known else None
    yield Checked(record.energy_j, true_j)
    yield Checked(joined_j(outcome(record), record), true_j)
    for gpu, use in zip(mine, used, strict=True):
        if not use.gap_s:
            yield Checked(use.energy_j, node.joules(BEGIN_S, END_S, gpu))
    if case.partly is not None:
        yield Checked(used[-1].energy_j, case.partly(node, used[-1]))
