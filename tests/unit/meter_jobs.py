"""What takes more than one job, node or user of a card, and jobs that end in odd ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slurmcast.meter.record import Ending
from tests.unit.meter_base import BEGIN_S, BUSY, END_S, GIB, OTHER, STEADY, Checked, drawn, joined_j, outcome
from tests.unit.meter_world import EPOCH


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
