"""One cycle of the agent: what it asks of Slurm, journals and tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.journal import Journal
from slurmcast.client import ClientError
from slurmcast.cluster.base import ClusterError
from slurmcast.config import Config, PartitionConfig
from tests.unit.agent_world import World, job


def test_a_cycle_moves_journals_and_tells(config: Config) -> None:
    world = World(config, job(1), job(2, state="RUNNING"), job(3, gpus=None, gpus_total=0))
    world.agent.cycle()
    assert [(c.job_id, c.partition) for c in world.slurm.changes] == [(1, "a6000")]
    before = Journal(config.paths.journal).before(world.slurm.records[1])
    assert before is not None
    assert (before.partition, before.site_factor, before.places) == ("a100", 0, ("a6000",))
    ((decision,),) = [body["decisions"] for body in world.daemon.of("decisions")]
    assert (decision["job_id"], decision["partition"], decision["changed"]) == (1, "a6000", True)


def test_only_news_is_told(config: Config) -> None:
    world = World(config, job(1))
    for _ in range(3):
        world.now += 30
        world.agent.cycle()
    assert len(world.slurm.changes) == 1
    assert [len(body["decisions"]) for body in world.daemon.of("decisions")] == [1, 0, 0]


def test_a_daemon_that_begins_anew_is_told_of_all_decisions(config: Config) -> None:
    world = World(config, job(1), job(2))
    for forgets in (False, True, False):
        world.daemon.forgets = forgets
        world.agent.cycle()
    assert [len(body["decisions"]) for body in world.daemon.of("decisions")] == [2, 2, 0]


def test_ranks_alone_make_no_news(config: Config) -> None:
    """A newcomer at the top: all others move down by one, and hear of it in the order alone."""
    world = World(config, *(job(n, time_limit_s=500 * n, gpus_total=9) for n in range(2, 6)))
    world.agent.cycle()
    world.slurm.records[1] = job(1)
    world.agent.cycle()
    before, after = world.daemon.of("decisions")
    assert [decision["job_id"] for decision in after["decisions"]] == [1]
    ids = [[job_id for line in body["lines"].values() for job_id, _ in line] for body in (before, after)]
    assert ids == [[2, 3, 4, 5], [1, 2, 3, 4, 5]]
    ((_, factor), *_) = after["lines"]["a6000"]
    assert factor == world.slurm.records[1].site_factor > 0


@pytest.mark.parametrize(("policy", "warnings"), [("lookahead", 2), ("value", 0)])
def test_the_log_says_when_most_jobs_are_late(
    config: Config, caplog: pytest.LogCaptureFixture, policy: Any, warnings: int
) -> None:
    agent = replace(config.agent, policy=policy, longest_wait_h=0.01)
    world = World(replace(config, agent=agent), job(1), job(2))
    for late in (True, True, False, True):
        world.now = 1000.0 if late else 910.0
        world.agent.cycle()
    assert caplog.text.count("2 of 2 pending jobs have waited for longer") == warnings


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_other_modes_only_tell(config: Config, mode: Any) -> None:
    world = World(replace(config, agent=replace(config.agent, mode=mode)), job(1))
    world.agent.cycle()
    assert world.slurm.changes == []
    assert not config.paths.journal.exists()
    assert world.daemon.of("decisions")[0]["decisions"][0]["changed"] is False


def test_dry_run_tells_nobody(config: Config) -> None:
    world = World(config, job(1))
    assert len(world.agent.cycle(dry_run=True).changes) == 1
    assert (world.slurm.changes, world.daemon.told) == ([], [])


def test_the_journal_is_written_before_slurm_is_asked(config: Config) -> None:
    world = World(config, job(1))
    world.slurm.refuses = {1}
    world.agent.cycle()
    assert Journal(config.paths.journal).before(job(1)) is not None


def test_nothing_is_asked_that_the_journal_cannot_hold(config: Config) -> None:
    world = World(config, job(1))
    config.paths.journal.mkdir()
    with pytest.raises(OSError, match="directory"):
        world.agent.cycle()
    assert world.slurm.changes == []


@pytest.mark.parametrize("jump_s", [400, -(10**6)])
def test_a_refusal_is_not_repeated_at_once(config: Config, jump_s: int) -> None:
    world = World(config, job(1))
    world.slurm.refuses = {1}
    world.agent.cycle()
    size = config.paths.journal.stat().st_size
    world.slurm.refuses = set()
    world.agent.cycle()
    assert (world.slurm.changes, config.paths.journal.stat().st_size) == ([], size)
    world.now += jump_s
    world.agent.cycle()
    assert len(world.slurm.changes) == 1, "after a while, or when the clock was set back"


@pytest.mark.parametrize("edge", ["slurm", "daemon"])
def test_an_edge_that_is_away_stops_the_cycle(config: Config, edge: str) -> None:
    world = World(config, job(1))
    world.slurm.down, world.daemon.away = edge == "slurm", edge == "daemon"
    with pytest.raises(ClusterError if edge == "slurm" else ClientError):
        world.agent.cycle()
    assert world.slurm.changes == []


def test_lease(config: Config) -> None:
    world = World(config)
    world.agent.write_lease()
    assert config.paths.lease.read_text() == "on 1090 8\n"
    assert oct(config.paths.lease.stat().st_mode & 0o777) == "0o644"
    world.agent.write_lease("off")
    assert config.paths.lease.read_text() == "off 1090 8\n"
    assert [path.name for path in config.paths.run_dir.iterdir()] == ["lease"]


def test_prices_are_read_again_and_the_cap_is_by_partition(config: Config, tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    parts = (PartitionConfig("a100", prior_power_w=300.0), PartitionConfig("a6000", prior_power_w=200.0))
    agent = replace(config.agent, price_file=table, power_cap_w=250.0)
    world = World(replace(config, agent=agent, partition=parts), job(1))

    def look() -> tuple[str, float]:
        (decision,) = world.agent.cycle().decisions
        return decision.reason, decision.values[0].energy_weight

    assert look()[1] == 1.0, "there is no table yet"
    table.write_text("time,price_per_kwh\n0,150\n3600,50\n")
    reason, weight = look()
    assert weight == pytest.approx(1.5) and "cap" not in reason, "200 W on a6000 have room"
    table.write_text("time,price_per_kwh\n0,-50\n3600,50\n3601,50\n")
    assert look()[1] < 1e-3
    world.agent.config = replace(world.agent.config, agent=replace(agent, power_cap_w=199.0))
    assert "above the site's cap" in look()[0]
