"""The meter on a full disk: a real one, which only the lab may mount."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import run
from tests.unit.meter_world import Node

pytestmark = pytest.mark.lab

PAGE = 4096


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose meter keeps its state on a disk of 64 KB."""
    state = tmp_path / "state"
    state.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(state))
    yield Node(tmp_path)
    run("umount", str(state))


def fill(folder: Path) -> Path:
    """Leave no byte free; the file to remove."""
    ballast = folder / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(PAGE))
    except OSError:
        return ballast


def test_nothing_is_lost_to_a_full_disk(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.gpus[0].counts = 0  # a card that doesn't count: each look at it matters
    node.begin(7)
    node.until(20)
    ballast = fill(node.folder / "state")
    node.until(60)
    node.end(7)
    node.until(61)
    node.begin(8)
    node.until(120)
    assert not node.records() and list(node.meter.runs) == ["8.1700000061"]
    node.end(8)
    node.until(300)
    assert not node.records() and len(list(node.markers.iterdir())) == 4, "a killed meter would still find them"
    assert caplog.text.count("records can't be written") == 1, "said once"
    ballast.unlink()
    node.until(302)
    seven, eight = node.records()
    assert seven.energy_j == pytest.approx(node.joules(0, 60), rel=0.01)
    assert eight.energy_j == pytest.approx(node.joules(61, 120), rel=0.01)
    assert not list(node.markers.iterdir())
    node.begin(9)
    node.until(330)
    node.end(9)
    assert node.records()[2].energy_j == pytest.approx(node.joules(302, 330), rel=0.01)


def test_a_meter_that_is_killed_meanwhile_claims_nothing_that_it_does_not_know(node: Node) -> None:
    node.begin(7)
    node.until(20)
    ballast = fill(node.folder / "state")
    node.until(60)
    node.end(7)
    node.until(90)
    node.boot()
    node.until(92)
    ballast.unlink()
    node.until(95)
    assert node.record().energy_j is None and not list(node.markers.iterdir())


def test_refused_records_make_room_on_a_full_disk(node: Node) -> None:
    refused = node.folder / "state/refused"
    for n in range(3):
        (refused / f"r{n}").write_bytes(bytes(PAGE))
    node.begin(7)
    node.until(20)
    fill(node.folder / "state")
    node.until(60)
    node.end(7)
    node.until(62)
    assert node.record().energy_j == pytest.approx(node.joules(0, 60), rel=0.01)
    assert len(list(refused.iterdir())) < 3
