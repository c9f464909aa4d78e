"""Measured energy goes to Slurm's accounting: once for each run, when all of it is known, and through restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.energy_writer import ASK_EVERY_S, MOST_IN_A_TURN, WAIT_H, EnergyWriter
from slurmcast.client import Client, ClientError
from slurmcast.cluster.base import Cluster, ClusterError, Refused
from slurmcast.codec import to_json
from slurmcast.config import ConfigError, parse
from slurmcast.meter.record import EnergyRecord, Method
from slurmcast.model import HOUR_S, Outcome
from slurmcast.store.store import Store
from tests.unit.daemon_harness import ALICE, daemon_in
from tests.unit.test_meter_report import GPU, OUTCOME, RECORD


class Accounting(Cluster):
    """Slurm's, as far as it is written to."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int, int]] = []
        self.error: ClusterError | None = None

    def write_energy(self, job_id: int, submit_time: int, start_time: int, joules: int) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append((job_id, submit_time, start_time, joules))


class Direct(Client):
    """A real store, without the daemon before it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def request(self, method: str, path: str, body: Any = None) -> Any:
        assert (method, path) == ("POST", "/v1/agent/energy")
        return {"energy_kwh": self._store.energies(tuple(run) for run in body["runs"])}


class World:
    """Runs and energies reach the store; a writer that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.store, self.slurm, self._path = Store(folder / "store.db", "test"), Accounting(), folder / "energies.json"
        self.now = 10.0
        self.restart()

    def restart(self) -> None:
        self.writer = EnergyWriter(self._path, self.slurm, Direct(self.store), lambda: self.now)

    def end(self, *outcomes: Outcome) -> None:
        self.store.add_outcomes(outcomes)
        self.writer.expect(outcomes)

    def measure(self, *records: EnergyRecord) -> None:
        self.store.add_energy(records)

    def turn(self, since: int = 0) -> list[int]:
        """A turn some time later; the jobs that have been written so far."""
        self.now += ASK_EVERY_S
        self.writer.turn(since)
        return [job_id for job_id, *_ in self.slurm.calls]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_each_is_written_once_when_it_is_known(world: World) -> None:
    world.end(OUTCOME)
    assert world.turn() == []
    world.measure(RECORD)
    assert world.turn() == [7]
    assert world.slurm.calls == [(7, 990, 1000, 1_800_000)]
    world.restart()
    world.end(OUTCOME)  # as an agent does that was restarted: its loads overlap
    assert world.turn() == [7]
    world.turn(since=OUTCOME.end_time + 1)
    assert world.writer.runs == {}, "what can't come again is forgotten"


def test_a_restart_forgets_none_that_waits(world: World) -> None:
    world.end(OUTCOME)
    world.restart()
    world.measure(RECORD)
    assert world.turn(since=OUTCOME.end_time + 1) == [7]


NOT_WHOLE = {
    "one node of two": replace(RECORD, nodes=2),
    "a GPU shared": replace(RECORD, shared="MIG"),
    "a gap": replace(RECORD, used=(replace(GPU, gap_s=40.0),)),
    "emulated": replace(RECORD, used=(replace(GPU, method=Method.EMULATED),)),
}


@pytest.mark.parametrize("case", NOT_WHOLE)
def test_what_is_not_wholly_measured_never_is(case: str, world: World) -> None:
    world.end(OUTCOME)
    world.measure(NOT_WHOLE[case])
    assert world.turn() == []
    for hour in range(WAIT_H):
        assert world.writer.runs, "it is waited for"
        world.now += HOUR_S
        world.turn()
        if hour % 5 == 0:
            world.restart()
    assert world.writer.runs == {}, "but not longer than a day"


def test_time_in_which_nobody_could_be_asked_is_no_waiting(world: World) -> None:
    world.end(OUTCOME)
    world.now += 2 * WAIT_H * HOUR_S
    assert world.turn() == []
    world.measure(RECORD)
    assert world.turn() == [7]


def test_a_clock_that_is_set_ahead_drops_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: OUTCOME.end_time + 2 * WAIT_H * HOUR_S)
    world.end(OUTCOME)
    assert world.turn(since=OUTCOME.end_time + int(WAIT_H * HOUR_S)) == []
    world.measure(RECORD)
    assert world.turn() == [7]


def test_what_slurm_itself_measured_is_left_alone(world: World) -> None:
    world.end(replace(OUTCOME, energy_kwh=1.0, energy_method="slurm"))
    assert world.turn() == []


def test_many_take_several_turns(world: World) -> None:
    numbers = range(1, MOST_IN_A_TURN + 3)
    world.end(*(replace(OUTCOME, job_id=number) for number in numbers))
    world.measure(*(replace(RECORD, job_id=number) for number in numbers))
    assert len(world.turn()) == MOST_IN_A_TURN
    world.now -= ASK_EVERY_S  # the next turn needn't wait
    assert sorted(world.turn()) == list(numbers)


def test_a_run_that_slurm_refuses_holds_up_no_other_but_a_slurm_that_is_away_does(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.end(OUTCOME)
    world.measure(RECORD)
    world.slurm.error = ClusterError("slurmdbd is away")
    assert world.turn() == [] and "slurmdbd is away" in caplog.text
    world.slurm.error = Refused("it was requeued")
    world.turn()
    world.slurm.error = None
    assert world.turn() == [], "asked once"
    world.end(replace(OUTCOME, job_id=8))
    world.measure(replace(RECORD, job_id=8))
    assert world.turn() == [8]


def test_a_file_that_cannot_be_read_is_said(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for damage in ("[[7", "[7]", '[["x", 1, 2, {}]]', "{}7", '[[1e999, 1, 2, {"ended": 3}]]', "[" * 100_000):
        (tmp_path / "energies.json").write_text(damage)
        world.restart()
        assert world.writer.runs == {}
    assert caplog.text.count("energies of runs that waited aren't written") == 6


def test_what_a_full_disk_kept_back_is_written_down_later(world: World, tmp_path: Path) -> None:
    draft = tmp_path / ".energies.json.new"
    draft.mkdir()  # as good as a full disk
    with pytest.raises(OSError):
        world.end(OUTCOME)
    draft.rmdir()
    world.end(OUTCOME)
    world.restart()
    world.measure(RECORD)
    draft.mkdir()
    with pytest.raises(OSError):
        world.turn()
    draft.rmdir()
    assert world.turn() == [7]
    world.restart()
    assert world.turn() == [7]


def test_the_daemon_tells_the_agent_alone(tmp_path: Path) -> None:
    with daemon_in(tmp_path) as daemon:
        daemon.settings += '\n[meter]\nnodes = ["a100-*"]'
        daemon.start()
        daemon.ask("POST", "/v1/energy", {"records": [to_json(RECORD)]})
        daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(OUTCOME)]})
        runs = {"runs": [[7, 990, 1000], [7, 990, 1001], [8, 990, 1000]]}
        assert daemon.ask("POST", "/v1/agent/energy", runs) == {"energy_kwh": [0.5, None, None]}
        with pytest.raises(ClientError, match="may ask this"):
            daemon.ask_as(ALICE, "POST", "/v1/agent/energy", runs)
        for body in ({}, {"runs": [[7]]}, {"runs": [["a", 1, 2]]}, {"runs": 7}):
            with pytest.raises(ClientError) as refusal:
                daemon.ask("POST", "/v1/agent/energy", body)
            assert refusal.value.status == 400


def test_what_slurm_measured_must_not_be_overwritten() -> None:
    with pytest.raises(ConfigError, match="overwrite"):
        parse({"agent": {"write_energy": True, "usage_from": ["slurm"]}})
