"""What happens to jobs on GPU nodes, each case with the energy that was truly used. Tests and benchmark share it.

``SINGLE`` is a table: one job on cards of which something is special. What takes more than one job, node or meter is a
function that yields each energy beside the true one; ``CASES`` has them all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from slurmcast.codec import to_json
from slurmcast.meter.record import Ending, EnergyRecord, GpuUse, Method, join
from slurmcast.meter.report import Reporter
from slurmcast.model import J_PER_KWH, Outcome
from tests.fake_nvml.script import COUNTER, POWER, UNKNOWN
from tests.unit.daemon_harness import daemon_in
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


# One job from BEGIN_S to END_S


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


def counted(gpu: GpuUse) -> bool:
    return gpu.method is Method.COUNTER


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


# Several jobs, nodes or meters


def several_nodes(folder: Path) -> Iterator[Checked]:
    nodes = [drawn(folder / name, curve, name=name) for name, curve in (("a100-1", BUSY), ("a100-2", OTHER))]
    (one,), (two,) = (n.play(f"{BEGIN_S} begin 7", f"{END_S} end 7", "202", SLURM_JOB_NUM_NODES="2") for n in nodes)
    out = outcome(one, gpus=2)
    yield Checked(joined_j(out, one, two), sum(node.joules(BEGIN_S, END_S) for node in nodes))
    yield Checked(joined_j(out, one), None)  # half of it isn't the job's energy


def two_jobs(folder: Path) -> Iterator[Checked]:
    node = drawn(folder, BUSY, OTHER)
    one, two, three = node.play(
        "9.2 begin 1 0", "30.7 begin 2 1", "140.4 end 2", "140.4 begin 3 1", "190 end 1", "190 end 3", "192"
    )
    yield Checked(one.energy_j, node.joules(9.2, 190, 0))
    yield Checked(two.energy_j, node.joules(30.7, 140.4, 1))
    yield Checked(three.energy_j, node.joules(140.4, 190, 1))  # at once on the same GPU


def mig(folder: Path) -> Iterator[Checked]:
    node = drawn(folder, mig=1, instance=b"MIG-0123")
    node.play("10.3 begin 7", CUDA_VISIBLE_DEVICES="MIG-0123")
    # The other one by the card's number, which says nothing of MIG.
    for record in node.play("10.3 begin 8", "150 end 7", "150 end 8", "152"):
        assert record.shared == "MIG" and abs(record.ended - record.began - 139.7) < 0.1  # the time counts
        yield Checked(record.energy_j, None)


def mps(folder: Path) -> Iterator[Checked]:
    (record,) = drawn(folder).play("10.3 begin 7", "150 end 7", "152", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50")
    assert record.shared == "MPS"
    yield Checked(record.energy_j, None)


def shard(folder: Path) -> Iterator[Checked]:
    """A prolog can't tell a shard from a GPU: two jobs on one GPU at a time do, and Slurm's accounting does."""
    node = drawn(folder)
    node.play("10.3 begin 7", "50 begin 8", "60")
    node.meter.heard(node.meter.suspects(), {7, 8})  # Slurm: both run
    seven, eight, nine = node.play("150 end 7", "180 end 8", "181 begin 9", "195 end 9", "197")
    assert seven.shared == eight.shared == "another job on the same GPU"
    yield Checked(seven.energy_j, None)
    yield Checked(eight.energy_j, None)
    yield Checked(joined_j(outcome(nine, gpus=0), nine), None)  # alone there, but on a shard by Slurm's word


def requeued(folder: Path) -> Iterator[Checked]:
    """The same number runs again, later: two records, each with its own energy."""
    node = drawn(folder)
    first, second = node.play("10.3 begin 7", "60.5 end 7", "70 begin 7", "180 end 7", "182")
    yield Checked(first.energy_j, node.joules(10.3, 60.5))
    yield Checked(second.energy_j, node.joules(70, 180))
    yield Checked(joined_j(outcome(second), first, second), node.joules(70, 180))


def requeued_without_epilog(folder: Path) -> Iterator[Checked]:
    """slurmd died, the job was requeued to the same GPU: the first run ended with its last sign of work."""
    node = drawn(folder, ended_at(60, again_at=101))
    first, second = node.play("10.3 begin 7", "100.5 begin 7", "180 end 7", "182")
    assert first.ending is Ending.GONE and abs(first.ended - EPOCH - 60) < 1.5
    yield Checked(first.energy_j, node.joules(10.3, first.ended - EPOCH))
    yield Checked(second.energy_j, node.joules(100.5, 180))


def cancelled(folder: Path) -> Iterator[Checked]:
    """Cancelled within a second and a half of its start, before the meter's second look."""
    node = drawn(folder, STEADY)
    node.play("10.2 begin 7")
    node.until(11.0, 0.4)
    node.told.now_s = 11.7
    node.awake = False
    (record,) = node.play("end 7", "13")
    yield Checked(record.energy_j, node.joules(10.2, 11.7))


def late_epilog(folder: Path) -> Iterator[Checked]:
    """On a busy node the last reading came after the end, and the marker was seen only after that."""
    for counts in (1, 0):
        node = drawn(folder / str(counts), STEADY, counts=counts)
        node.play("10.2 begin 7", "11")
        node.awake = False
        node.play("end 7")
        seen = [(path, path.rename(folder / path.name)) for path in node.markers.glob("*.end")]
        node.told.now_s = 11.3
        node.meter.step()
        for path, aside in seen:
            aside.rename(path)
        (record,) = node.play("13")
        yield Checked(record.energy_j, node.joules(10.2, 11))


def node_failure(folder: Path) -> Iterator[Checked]:
    """The node reboots: what was measured up to then is told, but as nothing whole."""
    node = drawn(folder)
    node.play("10.3 begin 7", "90")
    node.reboot()
    (record,) = node.play("95")
    last_s = record.ended - EPOCH
    assert record.ending is Ending.REBOOT and 80 < last_s <= 90
    yield Checked(record.energy_j, None)
    yield Checked(record.used[0].energy_j, node.joules(10.3, last_s))


def ended_at(end_s: float, again_at: float = 1e6) -> list[tuple[float, ...]]:
    """A card that works from 10 s to ``end_s``, and again from another time on."""
    busy = [(10, 300, GIB, 1), (end_s, 310, GIB, 1)]
    return [(0, 60), (10, 60), *busy, (end_s, 60), (again_at, 60), (again_at, 250, GIB, 1)]


def epilog_lost(folder: Path) -> Iterator[Checked]:
    """No epilog, and the next job on the GPU comes: Slurm is asked, and the first ended with its last sign of work."""
    node = drawn(folder, ended_at(90, again_at=151))
    node.play("10.3 begin 7", "150.5 begin 8", "153")
    asked = node.meter.suspects()
    assert {suspect.job_id for suspect in asked} == {7, 8}
    node.meter.heard(asked, {8})
    seven, eight = node.play("190 end 8", "192")
    last_s = seven.ended - EPOCH
    assert seven.ending is Ending.GONE and abs(last_s - 90) < 1.5
    yield Checked(seven.energy_j, node.joules(10.3, last_s))
    yield Checked(joined_j(outcome(seven, end_time=EPOCH + 90), seven), node.joules(10.3, last_s))
    yield Checked(joined_j(outcome(seven, end_time=EPOCH + 120), seven), None)  # the last sign of work wasn't its end
    yield Checked(eight.energy_j, node.joules(150.5, 190))


def epilog_lost_and_idle(folder: Path) -> Iterator[Checked]:
    """No epilog, and no next job: after ten idle minutes Slurm is asked."""
    node = drawn(folder, ended_at(90))
    node.play("10.3 begin 7")
    node.until(600, 2)
    assert not node.meter.suspects()
    node.until(800, 2)
    node.meter.heard(node.meter.suspects(), set())
    record = node.record()
    yield Checked(record.energy_j, node.joules(10.3, record.ended - EPOCH))


def daemon_away(folder: Path) -> Iterator[Checked]:
    """The record waits on the node until the daemon is there, and becomes the energy of the run that Slurm accounts."""
    node = drawn(folder / "node")
    (record,) = node.play(f"{BEGIN_S} begin 7", f"{END_S} end 7", "203")
    with daemon_in(folder / "daemon") as daemon:
        daemon.settings += '\n[meter]\nnodes = ["a100-1"]'
        reporter = Reporter(daemon.config, node.outbox)
        reporter.send()
        assert node.record() == record
        daemon.start()
        daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(outcome(record))]})
        reporter.send()
        assert not node.records()
        daemon.end()
        with sqlite3.connect(daemon.config.paths.store) as db:
            ((energy_kwh,),) = db.execute("SELECT json_extract(outcome, '$.energy_kwh') FROM outcome")
    yield Checked(energy_kwh * J_PER_KWH, node.joules(BEGIN_S, END_S))


def meter_killed(folder: Path) -> Iterator[Checked]:
    """Killed, and back after three seconds: with a counter nor without one anything is lost."""
    for counts in (1, 0):
        node = drawn(folder / str(counts), counts=counts)
        node.play(f"{BEGIN_S} begin 7", "77")
        node.told.now_s = 80
        node.boot()
        node.until(END_S)
        node.awake = False
        node.play("end 7")
        node.told.now_s = 201
        node.boot()
        (record,) = node.play("203")
        assert record.used[0].gap_s == 0
        yield Checked(record.energy_j, node.joules(BEGIN_S, END_S))


def meter_down_long(folder: Path) -> Iterator[Checked]:
    """Down for a minute: the counter goes on, samples don't."""
    for counts in (1, 0):
        node = drawn(folder / str(counts), counts=counts)
        node.play(f"{BEGIN_S} begin 7", "77")
        node.told.now_s = 137
        node.boot()
        (record,) = node.play(f"{END_S} end 7", "203")
        yield Checked(record.energy_j, node.joules(BEGIN_S, END_S) if counts else None)


def meter_down_at_an_end(folder: Path) -> Iterator[Checked]:
    """Down while a short job ended, for all of it, or while it began: no reading from outside of it stands for it."""
    for begin_s, end_s in ((10, 40), (35, 45), (40, 100)):
        node = drawn(folder / str(begin_s), ended_at(end_s))
        node.down_s = (33, 50)
        (record,) = node.play(f"{begin_s} begin 7", f"{end_s} end 7", "130")
        yield Checked(record.energy_j, None)


def meter_broken(folder: Path) -> Iterator[Checked]:
    """No meter, no folder: prolog and epilog succeed all the same (play asserts it), and there is no energy."""
    node = drawn(folder)
    node.until(10)
    node.awake = False
    node.markers.rmdir()
    node.play("begin 7", "end 7")
    node.markers.write_text("a file in the folder's place")
    records = node.play("begin 7", "end 7")
    yield Checked(None if not records else records[0].energy_j, None)


CASES: dict[str, Case] = {name: partial(single, case) for name, case in SINGLE.items()} | {
    "several nodes": several_nodes,
    "two jobs on one node": two_jobs,
    "MIG": mig,
    "MPS": mps,
    "shard": shard,
    "requeued": requeued,
    "requeued, epilog lost": requeued_without_epilog,
    "cancelled": cancelled,
    "epilog seen late": late_epilog,
    "node failure": node_failure,
    "epilog lost": epilog_lost,
    "epilog lost, GPU idle": epilog_lost_and_idle,
    "daemon away": daemon_away,
    "meter killed": meter_killed,
    "meter down for long": meter_down_long,
    "meter down at an end": meter_down_at_an_end,
    "meter broken": meter_broken,
}
