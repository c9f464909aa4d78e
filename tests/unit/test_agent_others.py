"""What users, admins and an agent before us did to a job is respected."""

from __future__ import annotations

from dataclasses import replace

from slurmcast.agent.journal import Journal
from slurmcast.config import Config
from slurmcast.model import Change
from tests.unit.agent_world import A100, A6000, World, job


def test_a_new_agent_knows_where_jobs_came_from(config: Config) -> None:
    """After a kill -9 the journal alone says that the job's own partition is a100."""
    world = World(config, job(1))
    world.agent.cycle()
    world.agent = world.new_agent()
    world.daemon.entries[1] = {"estimates": []}
    world.agent.cycle()
    (before,) = {Journal(config.paths.journal).before(world.slurm.records[1])}
    assert before is not None
    assert before.partition == "a100"
    decision = world.daemon.of("decisions")[-1]["decisions"][0]
    assert decision["verdicts"][0]["reason"] == "The job would run here without slurmcast."


def test_whoever_moves_a_job_back_home_is_respected_too(config: Config) -> None:
    world = World(config, job(1))
    world.agent.cycle()
    assert world.slurm.records[1].partitions == ("a6000",)
    world.slurm.records[1] = replace(world.slurm.records[1], partitions=("a100",))
    world.agent.cycle()
    world.agent = world.new_agent()
    world.agent.cycle()
    assert world.slurm.records[1].partitions == ("a100",)


def test_a_move_that_slurm_never_heard_of_is_asked_again(config: Config) -> None:
    """Killed between journal and update: the job at home wasn't moved there by anybody."""
    world = World(config, job(1))
    world.agent.journal.write(1.0, [(Change(1, job(1).submit_time, "", partition="a6000"), job(1))])
    world.agent = world.new_agent()
    world.agent.cycle()
    assert world.slurm.records[1].partitions == ("a6000",)


def test_whoever_moves_a_job_after_us_is_respected(config: Config) -> None:
    h100 = replace(A6000, name="h100")
    world = World(config, job(1))
    world.slurm.partitions = lambda: (A100, A6000, h100)  # type: ignore[method-assign]
    world.agent.cycle()
    world.slurm.records[1] = replace(world.slurm.records[1], partitions=("h100",))
    world.agent.cycle()
    assert world.slurm.records[1].partitions == ("h100",)
    decision = world.daemon.of("decisions")[-1]["decisions"][0]
    assert {v["partition"]: v["may"] for v in decision["verdicts"]}["h100"] == "order only"


def test_opting_out_later_counts(config: Config) -> None:
    world = World(config, job(1, comment="project x,slurmcast:off"))
    world.agent.cycle()
    assert world.slurm.changes == []
