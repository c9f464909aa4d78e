"""The node's own energy, from a folder that looks like the kernel's powercap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurmcast.meter.record import EnergyRecord, Method, join
from slurmcast.meter.run import HOST
from slurmcast.model import J_PER_KWH, Outcome
from tests.unit.meter_world import EPOCH, Node

DOMAINS = {  # powercap's name: (its own name, watts, joules at the beginning, joules at which it wraps)
    "intel-rapl:0": ("package-0", 80.0, 100.0, 65e3),
    "intel-rapl:0:0": ("core", 60.0, 0.0, 65e3),
    "intel-rapl:0:1": ("dram", 15.0, 64e3, 65e3),
    "intel-rapl:1": ("package-1", 40.0, 59e3, 65e3),
    "intel-rapl:2": ("psys", 300.0, 0.0, 65e3),
    "intel-rapl-mmio:0": ("package-0", 80.0, 100.0, 65e3),
}
POWER_W = 80.0 + 15.0 + 40.0
"""Of the packages and their memory: nothing twice."""


class Powercap:
    """The kernel's folder at the node's time."""

    def __init__(self, folder: Path, domains: dict[str, tuple[str, float, float, float]] = DOMAINS) -> None:
        self.folder, self._domains = folder, domains
        self.reset_s = 0.0
        """Since when the counters have run."""
        for path, (name, _, _, most_j) in domains.items():
            (folder / path).mkdir(parents=True)
            (folder / path / "name").write_text(f"{name}\n")
            (folder / path / "max_energy_range_uj").write_text(f"{most_j * 1e6:.0f}\n")
        self.show(0.0)

    def show(self, now_s: float) -> None:
        for path, (_, watts, first_j, most_j) in self._domains.items():
            joules = (first_j + watts * (now_s - self.reset_s)) % most_j
            (self.folder / path / "energy_uj").write_text(f"{joules * 1e6:.0f}\n")


class World(Node):
    """A node whose counters move whenever the meter looks."""

    def __init__(self, folder: Path, powercap: Powercap) -> None:
        self.powercap = powercap
        super().__init__(folder, powercap=powercap.folder)

    def _look(self) -> None:
        self.powercap.show(self.told.now_s)
        super()._look()


def measured(folder: Path, meanwhile: Callable[[World], None] = lambda node: None, **environment: str) -> EnergyRecord:
    """The record of one job from 10.3 s to 200.6 s; ``meanwhile``: what happens at 100 s."""
    node = World(folder, Powercap(folder / "powercap"))
    node.until(10.3)
    node.begin(7, **{"SLURM_JOB_EXCLUSIVE": "NODE", **environment})
    node.until(100)
    meanwhile(node)
    node.until(200.6)
    node.end(7)
    node.until(203)
    return node.record()


def test_packages_and_memory_count_once_and_wraps_are_no_loss(tmp_path: Path) -> None:
    record = measured(tmp_path)
    assert record.host_energy_j == pytest.approx(POWER_W * 190.3, rel=0.001)
    assert [(use.uuid == HOST, use.method) for use in record.used] == [(False, Method.COUNTER)]
    assert record.energy_j == pytest.approx(100.0 * 190.3, rel=0.01), "the GPU's energy is the GPU's alone"


@pytest.mark.parametrize("exclusive", ["NO", "USER", ""])
def test_a_job_that_shares_its_node_has_none(exclusive: str, tmp_path: Path) -> None:
    record = measured(tmp_path, SLURM_JOB_EXCLUSIVE=exclusive)
    assert record.host_energy_j is None and record.energy_j is not None


def _reset(node: World) -> None:
    node.powercap.reset_s = 100.0


def _away(node: World) -> None:
    for path in node.powercap.folder.glob("*/energy_uj"):
        path.rename(path.with_name("away"))
    node.powercap.show = lambda now_s: None  # type: ignore[method-assign]


def _killed(node: World) -> None:
    node.told.now_s = 100.5
    node.boot()
    node._look()


def _down(node: World) -> None:
    node.told.now_s = 120
    node.boot()


def _stopped(node: World) -> None:
    """The process is stopped for longer than a counter takes to wrap."""
    node.told.now_s = 180


@pytest.mark.parametrize(
    ("meanwhile", "is_known"), [(_reset, True), (_away, False), (_killed, True), (_down, False), (_stopped, False)]
)
def test_what_is_not_known_is_no_energy(meanwhile: Callable[[World], None], is_known: bool, tmp_path: Path) -> None:
    record = measured(tmp_path, meanwhile)
    assert (record.host_energy_j is not None) is is_known
    if record.host_energy_j is not None:  # a gap of less than 1 %
        assert record.host_energy_j == pytest.approx(POWER_W * 190.3, rel=0.015)
    assert record.energy_j is not None, "the GPU is another matter"


def test_no_rapl_is_said_once_and_costs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path, powercap=tmp_path / "none")
    node.begin(7, SLURM_JOB_EXCLUSIVE="NODE")
    node.until(100)
    node.end(7)
    node.until(102)
    assert node.record().host_energy_j is None and node.record().energy_j is not None
    assert caplog.text.count("no RAPL here") == 1


def test_it_is_summed_over_the_nodes_of_a_run_apart_from_the_gpus(tmp_path: Path) -> None:
    record = measured(tmp_path)
    outcome = Outcome(7, EPOCH, "p", "a100", 1, "COMPLETED", EPOCH + 10, EPOCH + 201, 191.0)
    joined = join(outcome, [record])
    assert joined.energy_kwh is not None and joined.host_energy_kwh is not None
    assert joined.host_energy_kwh * J_PER_KWH == pytest.approx(record.host_energy_j)
    assert joined.energy_kwh * J_PER_KWH == pytest.approx(record.energy_j)
