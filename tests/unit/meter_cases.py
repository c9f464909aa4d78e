"""What happens to jobs on GPU nodes, each case with the energy that was truly used. Tests and benchmark share it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast.codec import to_json
from slurmcast.meter.record import Ending, EnergyRecord, Method, join
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


def whole_run(node: Node, *gpus: int) -> EnergyRecord:
    """One job on those GPUs from 10.3 s to 200.6 s, read at other times."""
    node.until(10.3)
    assert node.begin(7, ",".join(map(str, gpus or (0,)))) == 0
    node.until(200.6)
    assert node.end(7) == 0
    node.until(203)
    return node.record()


def one_gpu(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    record = whole_run(node)
    (used,) = record.used
    assert (used.method, used.gap_s, used.peak_memory_gb) == (Method.COUNTER, 0, 40)
    assert used.peak_power_w is not None and used.mean_power_w is not None and used.utilisation is not None
    assert abs(used.peak_power_w - 390) < 2 and abs(used.mean_power_w - node.joules(10.3, 200.6) / 190.3) < 3
    assert 0.9 < used.utilisation < 0.98
    assert (record.ending, record.start_time, record.gpus) == (Ending.EPILOG, EPOCH + 10, 1)
    yield Checked(record.energy_j, node.joules(10.3, 200.6))
    yield Checked(joined_j(outcome(record), record), node.joules(10.3, 200.6))


def several_gpus(folder: Path) -> Iterator[Checked]:
    node = Node(folder, gpus=4)
    for gpu, curve in ((1, BUSY), (3, OTHER)):
        node.gpus[gpu].draw(curve)
    # NVML's order isn't that of the device files: numbers are those of the files.
    node.gpus[1].minor, node.gpus[3].minor = 3, 1
    record = whole_run(node, 1, 3)
    assert record.gpus == 2 and {use.uuid[:12] for use in record.used} == {"GPU-00000001", "GPU-00000003"}
    yield Checked(record.energy_j, node.joules(10.3, 200.6, 1, 3))


def several_nodes(folder: Path) -> Iterator[Checked]:
    records, true_j = [], 0.0
    for number, curve in ((1, BUSY), (2, OTHER)):
        node = Node(folder / str(number), name=f"a100-{number}")
        node.gpus[0].draw(curve)
        node.until(10.3)
        node.begin(7, SLURM_JOB_NUM_NODES="2")
        node.until(200.6)
        node.end(7)
        node.until(202)
        records.append(node.record())
        true_j += node.joules(10.3, 200.6)
    out = outcome(records[0], gpus=2)
    yield Checked(joined_j(out, *records), true_j)
    yield Checked(joined_j(out, records[0]), None)  # half of it isn't the job's energy


def two_jobs(folder: Path) -> Iterator[Checked]:
    node = Node(folder, gpus=2)
    node.gpus[0].draw(BUSY)
    node.gpus[1].draw(OTHER)
    node.until(9.2)
    node.begin(1, "0")
    node.until(30.7)
    node.begin(2, "1")
    node.until(140.4)
    node.end(2)
    node.begin(3, "1")  # at once on the same GPU
    node.until(190)
    node.end(1)
    node.end(3)
    node.until(192)
    first, second, third = node.records()
    yield Checked(first.energy_j, node.joules(9.2, 190, 0))
    yield Checked(second.energy_j, node.joules(30.7, 140.4, 1))
    yield Checked(third.energy_j, node.joules(140.4, 190, 1))


def mig(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].mig, node.gpus[0].instance = 1, b"MIG-0123"
    node.until(10.3)
    node.begin(7, "0", CUDA_VISIBLE_DEVICES="MIG-0123")
    node.begin(8, "0")  # by the card's number, which says nothing of MIG
    node.until(150)
    node.end(7)
    node.end(8)
    node.until(152)
    for record in node.records():
        assert record.shared == "MIG" and abs(record.ended - record.began - 139.7) < 0.1  # the time counts
        yield Checked(record.energy_j, None)


def mps(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.until(10.3)
    node.begin(7, "0", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50")
    node.until(150)
    node.end(7)
    node.until(152)
    assert node.record().shared == "MPS"
    yield Checked(node.record().energy_j, None)


def shard(folder: Path) -> Iterator[Checked]:
    """A prolog can't tell a shard from a GPU: two jobs on one GPU at a time do, and Slurm's accounting does."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.until(10.3)
    node.begin(7)
    node.until(50)
    node.begin(8)
    node.until(60)
    asked = node.meter.suspects()
    node.meter.heard(asked, {7, 8})  # Slurm: both run
    node.until(150)
    node.end(7)
    node.until(180)
    node.end(8)
    node.until(181)
    node.begin(9)
    node.until(195)
    node.end(9)
    node.until(197)
    seven, eight, nine = node.records()
    assert seven.shared == eight.shared == "another job on the same GPU"
    yield Checked(seven.energy_j, None)
    yield Checked(eight.energy_j, None)
    yield Checked(joined_j(outcome(nine, gpus=0), nine), None)  # alone there, but on a shard by Slurm's word


def gpu_lost(folder: Path) -> Iterator[Checked]:
    node = Node(folder, gpus=2)
    node.gpus[0].draw(BUSY)
    node.gpus[1].draw(OTHER)
    node.gpus[1].fail(80)
    record = whole_run(node, 0, 1)
    sound, lost = sorted(record.used, key=lambda use: use.uuid)
    assert lost.gap_s > 119 and sound.gap_s == 0
    yield Checked(record.energy_j, None)
    yield Checked(sound.energy_j, node.joules(10.3, 200.6, 0))
    known_s = lost.counted_s + lost.sampled_s
    assert 67 < known_s < 70
    yield Checked(lost.energy_j, node.joules(10.3, 10.3 + known_s, 1))  # what was measured before, and no 0 W after


def counter_reset(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].resets_s[0] = 90.4
    record = whole_run(node)
    assert record.used[0].method is Method.COUNTER and 0 < record.used[0].sampled_s < 2
    yield Checked(record.energy_j, node.joules(10.3, 200.6))


def counter_wraps(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].wrap_j = 20_000
    yield Checked(whole_run(node).energy_j, node.joules(10.3, 200.6))


def counter_missing(folder: Path) -> Iterator[Checked]:
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].counts = 0
    record = whole_run(node)
    assert record.used[0].method is Method.SAMPLED and record.used[0].counted_s == 0
    yield Checked(record.energy_j, node.joules(10.3, 200.6))


def sampling_window(folder: Path) -> Iterator[Checked]:
    """An A100 shows the power of the last 25 ms of each 100 ms."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].counts, node.gpus[0].window_s, node.gpus[0].period_s = 0, 0.025, 0.1
    yield Checked(whole_run(node).energy_j, node.joules(10.3, 200.6))


def readings_missing(folder: Path) -> Iterator[Checked]:
    """Single calls fail now and then; what is between two good readings is bridged where that is honest."""
    node = Node(folder, gpus=3)
    for gpu in range(3):
        node.gpus[gpu].draw(BUSY)
    node.gpus[0].fail(50, 53, UNKNOWN)
    node.gpus[1].counts = 0
    node.gpus[1].fail(50, 53, UNKNOWN, POWER)
    node.gpus[2].fail(60, 90, UNKNOWN, COUNTER)
    record = whole_run(node, 0, 1, 2)
    assert all(use.gap_s == 0 for use in record.used)
    yield Checked(record.energy_j, node.joules(10.3, 200.6, 0, 1, 2))


def long_gap(folder: Path) -> Iterator[Checked]:
    """Half a minute without a word from a card that doesn't count is a gap."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].counts = 0
    node.gpus[0].fail(50, 80, UNKNOWN)
    record = whole_run(node)
    assert 30 <= record.used[0].gap_s <= 32
    yield Checked(record.energy_j, None)
    known = node.joules(10.3, 200.6) - node.joules(49.3, 80.3)
    yield Checked(record.used[0].energy_j, known)


def driver_restart(folder: Path) -> Iterator[Checked]:
    """The driver is loaded anew within the time that a trapezoid bridges; the counter begins anew with it."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.told.unloaded_s = (120.2, 124.7)
    node.gpus[0].resets_s[0] = 124.7
    record = whole_run(node)
    assert record.used[0].gap_s == 0 and 4 < record.used[0].sampled_s < 8
    yield Checked(record.energy_j, node.joules(10.3, 200.6))


def driver_restart_long(folder: Path) -> Iterator[Checked]:
    """The counter after a long absence is more than that before it: it still began anew."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.gpus[0].counter_j = 0
    node.told.unloaded_s = (20.2, 50.7)
    node.gpus[0].resets_s[0] = 21
    record = whole_run(node)
    assert record.used[0].gap_s > 30
    yield Checked(record.energy_j, None)


def suspended(folder: Path) -> Iterator[Checked]:
    """Suspended, a job keeps its GPUs: what they draw is its own."""
    node = Node(folder)
    node.gpus[0].draw([(0, 60), (12, 300, GIB, 1), (80, 300, GIB, 1), (80, 75), (150, 75), (150, 320, GIB, 1)])
    yield Checked(whole_run(node).energy_j, node.joules(10.3, 200.6))


def requeued(folder: Path) -> Iterator[Checked]:
    """The same number runs again, later: two records, each with its own energy."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.until(10.3)
    node.begin(7)
    node.until(60.5)
    node.end(7)
    node.until(70)
    node.begin(7)
    node.until(180)
    node.end(7)
    node.until(182)
    first, second = node.records()
    yield Checked(first.energy_j, node.joules(10.3, 60.5))
    yield Checked(second.energy_j, node.joules(70, 180))
    yield Checked(joined_j(outcome(second), first, second), node.joules(70, 180))


def requeued_without_epilog(folder: Path) -> Iterator[Checked]:
    """slurmd died, the job was requeued to the same GPU: the first run ended with its last sign of work."""
    node = Node(folder)
    node.gpus[0].draw(
        [(0, 60), (10, 60), (10, 300, GIB, 1), (60, 300, GIB, 1), (60, 60), (101, 60), (101, 250, GIB, 1)]
    )
    node.until(10.3)
    node.begin(7)
    node.until(100.5)
    node.begin(7)
    node.until(180)
    node.end(7)
    node.until(182)
    first, second = node.records()
    assert first.ending is Ending.GONE and abs(first.ended - EPOCH - 60) < 1.5
    yield Checked(first.energy_j, node.joules(10.3, first.ended - EPOCH))
    yield Checked(second.energy_j, node.joules(100.5, 180))


def cancelled(folder: Path) -> Iterator[Checked]:
    """Cancelled within a second and a half of its start, before the meter's second look."""
    node = Node(folder)
    node.gpus[0].draw([(0, 200), (300, 260)])
    node.until(10.2)
    node.begin(7)
    node.until(11.0, 0.4)
    node.told.now_s = 11.7
    node.awake = False
    node.end(7)
    node.until(13)
    yield Checked(node.record().energy_j, node.joules(10.2, 11.7))


def late_epilog(folder: Path) -> Iterator[Checked]:
    """On a busy node the last reading came after the end, and the marker was seen only after that."""
    for counts in (1, 0):
        node = Node(folder / str(counts))
        node.gpus[0].draw([(0, 200), (300, 260)])
        node.gpus[0].counts = counts
        node.until(10.2)
        node.begin(7)
        node.until(11)
        node.awake = False
        node.end(7)
        seen = [(path, path.rename(folder / path.name)) for path in node.markers.glob("*.end")]
        node.told.now_s = 11.3
        node.meter.step()
        for path, aside in seen:
            aside.rename(path)
        node.until(13)
        yield Checked(node.record().energy_j, node.joules(10.2, 11))


def node_failure(folder: Path) -> Iterator[Checked]:
    """The node reboots: what was measured up to then is told, but as nothing whole."""
    node = Node(folder)
    node.gpus[0].draw(BUSY)
    node.until(10.3)
    node.begin(7)
    node.until(90)
    node.reboot()
    node.until(95)
    record = node.record()
    assert record.ending is Ending.REBOOT
    last_s = record.ended - EPOCH
    assert 80 < last_s <= 90
    yield Checked(record.energy_j, None)
    yield Checked(record.used[0].energy_j, node.joules(10.3, last_s))


def epilog_lost(folder: Path) -> Iterator[Checked]:
    """No epilog, and the next job on the GPU comes: Slurm is asked, and the first ended with its last sign of work."""
    node = Node(folder)
    node.gpus[0].draw(
        [(0, 60), (10, 60), (10, 300, GIB, 1), (90, 310, GIB, 1), (90, 60), (151, 60), (151, 250, GIB, 1)]
    )
    node.until(10.3)
    node.begin(7)
    node.until(150.5)
    node.begin(8)
    node.until(153)
    asked = node.meter.suspects()
    assert {suspect.job_id for suspect in asked} == {7, 8}
    node.meter.heard(asked, {8})
    node.until(190)
    node.end(8)
    node.until(192)
    seven, eight = node.records()
    assert seven.ending is Ending.GONE and abs(seven.ended - EPOCH - 90) < 1.5
    yield Checked(seven.energy_j, node.joules(10.3, seven.ended - EPOCH))
    yield Checked(joined_j(outcome(seven, end_time=EPOCH + 90), seven), node.joules(10.3, seven.ended - EPOCH))
    yield Checked(joined_j(outcome(seven, end_time=EPOCH + 120), seven), None)  # the last sign of work wasn't its end
    yield Checked(eight.energy_j, node.joules(150.5, 190))


def epilog_lost_and_idle(folder: Path) -> Iterator[Checked]:
    """No epilog, and no next job: after ten idle minutes Slurm is asked."""
    node = Node(folder)
    node.gpus[0].draw([(0, 60), (10, 60), (10, 300, GIB, 1), (90, 310, GIB, 1), (90, 60)])
    node.until(10.3)
    node.begin(7)
    node.until(600, 2)
    assert not node.meter.suspects()
    node.until(800, 2)
    node.meter.heard(node.meter.suspects(), set())
    record = node.record()
    yield Checked(record.energy_j, node.joules(10.3, record.ended - EPOCH))


def daemon_away(folder: Path) -> Iterator[Checked]:
    """The record waits on the node until the daemon is there, and becomes the energy of the run that Slurm accounts."""
    node = Node(folder / "node")
    node.gpus[0].draw(BUSY)
    record = whole_run(node)
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
    yield Checked(energy_kwh * J_PER_KWH, node.joules(10.3, 200.6))


def idle_card(folder: Path) -> Iterator[Checked]:
    """A job that never uses its GPU still has its idle power: it isn't 0."""
    node = Node(folder)
    node.gpus[0].draw([(0, 52.0)])
    record = whole_run(node)
    assert record.used[0].utilisation == 0
    yield Checked(record.energy_j, 52.0 * 190.3)


def meter_killed(folder: Path) -> Iterator[Checked]:
    """Killed, and back after three seconds: with a counter nor without one anything is lost."""
    for counts in (1, 0):
        node = Node(folder / str(counts))
        node.gpus[0].draw(BUSY)
        node.gpus[0].counts = counts
        node.until(10.3)
        node.begin(7)
        node.until(77)
        node.told.now_s = 80
        node.boot()
        node.until(200.6)
        node.awake = False
        node.end(7)
        node.told.now_s = 201
        node.boot()
        node.until(203)
        assert node.record().used[0].gap_s == 0
        yield Checked(node.record().energy_j, node.joules(10.3, 200.6))


def meter_down_long(folder: Path) -> Iterator[Checked]:
    """Down for a minute: the counter goes on, samples don't."""
    for counts in (1, 0):
        node = Node(folder / str(counts))
        node.gpus[0].draw(BUSY)
        node.gpus[0].counts = counts
        node.until(10.3)
        node.begin(7)
        node.until(77)
        node.told.now_s = 137
        node.boot()
        node.until(200.6)
        node.end(7)
        node.until(203)
        yield Checked(node.record().energy_j, node.joules(10.3, 200.6) if counts else None)


def meter_down_at_an_end(folder: Path) -> Iterator[Checked]:
    """Down while a short job ended, for all of it, or while it began: no reading from outside of it stands for it."""
    for begin_s, end_s in ((10, 40), (35, 45), (40, 100)):
        node = Node(folder / str(begin_s))
        node.gpus[0].draw([(0, 60), (10, 60), (10, 300, GIB, 1), (end_s, 300, GIB, 1), (end_s, 60)])
        node.down_s = (33, 50)
        node.until(begin_s)
        node.begin(7)
        node.until(end_s)
        node.end(7)
        node.until(130)
        yield Checked(node.record().energy_j, None)


def meter_broken(folder: Path) -> Iterator[Checked]:
    """No meter, no folder: prolog and epilog succeed all the same, and there is no energy."""
    node = Node(folder)
    node.until(10)
    node.awake = False
    node.markers.rmdir()
    assert node.begin(7) == 0 and node.end(7) == 0
    node.markers.write_text("a file in the folder's place")
    assert node.begin(7) == 0 and node.end(7) == 0
    assert not node.records()
    yield Checked(None, None)


CASES: dict[str, Case] = {
    "one GPU": one_gpu,
    "several GPUs": several_gpus,
    "several nodes": several_nodes,
    "two jobs on one node": two_jobs,
    "MIG": mig,
    "MPS": mps,
    "shard": shard,
    "GPU lost": gpu_lost,
    "counter reset": counter_reset,
    "counter wraps": counter_wraps,
    "counter missing: sampling": counter_missing,
    "sampling window of a quarter": sampling_window,
    "single readings missing": readings_missing,
    "half a minute missing": long_gap,
    "driver restart": driver_restart,
    "driver away for long": driver_restart_long,
    "suspended": suspended,
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
    "idle card": idle_card,
}
