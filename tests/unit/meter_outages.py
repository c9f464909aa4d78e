"""The daemon away, the meter killed, down or broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from slurmcast.codec import to_json
from slurmcast.meter.report import Reporter
from slurmcast.model import J_PER_KWH
from tests.unit.daemon_harness import daemon_in
from tests.unit.meter_base import BEGIN_S, END_S, Checked, drawn, outcome
from tests.unit.meter_jobs import ended_at
from tests.unit.meter_world import Node


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


def back_at(moment_s: float, folder: Path, counts: int) -> Node:
    """A node whose meter was killed at 77 s, during a job, and is there again."""
    node = drawn(folder / str(counts), counts=counts)
    node.play(f"{BEGIN_S} begin 7", "77")
    node.told.now_s = moment_s
    node.boot()
    return node


def meter_killed(folder: Path) -> Iterator[Checked]:
    """Killed, and back after three seconds: with a counter nor without one anything is lost."""
    for counts in (1, 0):
        node = back_at(80, folder, counts)
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
        node = back_at(137, folder, counts)
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
