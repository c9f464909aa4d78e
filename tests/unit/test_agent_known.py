"""What the agent asks the daemon for, hands over to it and remembers of its answers."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from slurmcast.config import Config
from slurmcast.model import PendingJob
from tests.unit.agent_world import World, job


def test_scripts_are_read_back_some_a_cycle(config: Config) -> None:
    config = replace(config, agent=replace(config.agent, max_readback=2))
    world = World(config, *(job(n) for n in range(1, 5)), job(5, batch=False))
    world.daemon.entries = {n: {"script_wanted": True} for n in range(1, 6)}
    world.slurm.refuses = {2}
    world.agent.cycle()
    sent = world.daemon.of("script")
    assert [body["job"]["job_id"] for body in sent] == [1]
    assert base64.b64decode(sent[0]["script_base64"]) == b"#!/bin/sh\n\xe9\n"
    world.daemon.entries[1] = {}
    world.agent.cycle()
    assert [body["job"]["job_id"] for body in world.daemon.of("script")] == [1, 3, 4]


@pytest.mark.parametrize("status", [0, 400, 500])
def test_a_script_that_the_daemon_cannot_take_does_not_stop_the_others(config: Config, status: int) -> None:
    world = World(config, job(1), job(2))
    world.daemon.entries = {n: {"script_wanted": True} for n in (1, 2)}
    world.daemon.fails = {1: status}
    for _ in range(2):
        world.agent.cycle()
    assert {change.job_id for change in world.slurm.changes} == {1, 2}
    assert [body["job"]["job_id"] for body in world.daemon.of("script")] == ([2, 2] if status else [])


def test_what_was_expected_of_running_jobs_is_asked_once(config: Config) -> None:
    world = World(config, job(1), job(2, state="RUNNING", start_time=900))
    interval = {"p10": 50.0, "p50": 100.0, "p90": 200.0}
    world.daemon.expected = {"partition": "a100", "gpus": 1, "time_s": interval, "energy_kwh": None, "source": "probe"}
    asked: list[list[int]] = []
    snapshots = []
    for _ in range(2):
        jobs, partitions = world.slurm.jobs(), world.slurm.partitions()
        request = world.daemon.request

        def spy(method: str, path: str, body: Any = None, request: Any = request) -> Any:
            asked.append([record["job_id"] for record in body["running"]])
            return request(method, path, body)

        world.daemon.request = spy  # type: ignore[method-assign]
        snapshots.append(world.agent._snapshot(jobs, partitions, [world.slurm.records[1]])[0])
        world.daemon.request = request  # type: ignore[method-assign]
    assert asked == [[2], []]
    for snapshot in snapshots:
        (running,) = snapshot.running
        assert running.estimate is not None
        assert running.estimate.time_s is not None
        assert (running.job.job_id, running.estimate.time_s.p90) == (2, 200.0)


def test_what_has_not_changed_stays_the_same_object(config: Config) -> None:
    """What makes plans quick: see agent/known.py."""
    world = World(config, job(1), job(2), job(3))

    def look() -> dict[int, PendingJob]:
        jobs = [record for record in world.slurm.jobs() if record.state == "PENDING"]
        world.agent._forget(jobs)
        return {p.job.job_id: p for p in world.agent._snapshot(jobs, world.slurm.partitions(), jobs)[0].pending}

    first = look()
    world.slurm.records = {n: replace(record) for n, record in world.slurm.records.items()}
    world.slurm.records[2] = replace(world.slurm.records[2], reason="Resources")
    world.daemon.entries[3] = {"partition_named": True}
    second = look()
    assert [second[n] is first[n] for n in (1, 2, 3)] == [True, False, False]
    assert (second[2].job.reason, second[3].partition_named) == ("Resources", True)
    world.slurm.records[1] = replace(world.slurm.records[1], state="RUNNING")
    look()
    assert {job_id for job_id, _ in world.agent.pending} == {2, 3}, "nothing is kept of jobs that wait no more"
