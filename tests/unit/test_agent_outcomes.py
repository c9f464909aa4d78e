"""The agent hands finished runs over: each once, none lost, whatever is away and whatever clocks do."""

from __future__ import annotations

import pytest

from slurmcast.agent import cycle
from slurmcast.client import ClientError
from slurmcast.cluster.base import ClusterError
from slurmcast.config import Config
from slurmcast.model import Outcome
from tests.unit.agent_world import World


def test_outcomes_are_told_once(config: Config) -> None:
    world = World(config)
    world.slurm.runs = [Outcome(9, 1, "a100", "a100", 1, "COMPLETED", 500, 900, 400.0)]
    assert world.agent.report_outcomes() == 1
    assert world.slurm.since == 1000 - 30 * 86400
    assert world.agent.report_outcomes() == 0
    world.now += 1000
    world.new_agent().report_outcomes()
    assert world.slurm.since == 1000 - 300


def test_a_busy_month_is_told_bit_by_bit(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "OUTCOMES_AT_A_TIME", 3)
    world = World(config)
    world.slurm.runs = [Outcome(n, 1, "a100", "a100", 1, "COMPLETED", 500, 900, 400.0) for n in range(7)]
    assert world.agent.report_outcomes() == 7
    told = [[outcome["job_id"] for outcome in body["outcomes"]] for body in world.daemon.of("outcomes")]
    assert told == [[0, 1, 2], [3, 4, 5], [6]]


def test_runs_that_accounting_hears_of_late(config: Config) -> None:
    """slurmdbd was away for an hour, and slurmctld tells it of that hour's runs some time after it is back."""
    world = World(config)
    told: list[int] = []

    def look(seconds: float) -> None:
        world.now += seconds
        world.agent.report_outcomes()
        told[:] = [outcome["job_id"] for body in world.daemon.of("outcomes") for outcome in body["outcomes"]]

    for _ in range(100):
        look(10)
    assert world.slurm.since == world.now - 310, "in quiet times loads don't reach back far"
    world.slurm.down = True
    for _ in range(3):
        with pytest.raises(ClusterError):
            look(1200)
    world.slurm.down = False
    look(10)
    world.slurm.runs = [Outcome(9, 1, "a100", "a100", 1, "COMPLETED", 2100, 2500, 400.0)]
    world.agent = world.new_agent()
    look(10)
    assert told == [9]
    for _ in range(50):
        look(10)
    assert (told, world.slurm.since) == ([9], world.now - 310)


def test_a_clock_that_was_ahead_costs_no_outcomes(config: Config) -> None:
    world = World(config)
    world.now += 1e9
    world.agent.report_outcomes()
    world.now -= 1e9
    world.agent.report_outcomes()
    assert world.slurm.since == 1000 - 30 * 86400


def test_outcomes_are_not_forgotten_while_the_daemon_is_away(config: Config) -> None:
    world = World(config)
    world.slurm.runs = [Outcome(9, 1, "a100", "a100", 1, "COMPLETED", 500, 900, 400.0)]
    world.daemon.away = True
    with pytest.raises(ClientError):
        world.agent.report_outcomes()
    world.daemon.away = False
    assert world.agent.report_outcomes() == 1
