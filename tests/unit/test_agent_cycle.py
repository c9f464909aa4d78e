"""One cycle of the agent against a small Slurm and a small daemon, both played in memory."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.cycle import Agent
from slurmcast.agent.journal import Journal
from slurmcast.client import Client, ClientError
from slurmcast.cluster.base import Cluster, ClusterError, Refused
from slurmcast.config import Config, PartitionConfig, Paths
from slurmcast.model import Change, GpuRequest, Job, Node, Outcome, Partition, PendingJob

A100 = Partition("a100", "a100", (Node("a", 4, 0, 8, 8, 100, 100),), 40.0, default=True)
A6000 = Partition("a6000", "a6000", (Node("b", 4, 1, 8, 8, 100, 100),), 48.0)


def job(job_id: int, **fields: Any) -> Job:
    plain = Job(job_id, "alice", 1000, "train", "PENDING", "Priority", ("a100",), 900 + job_id)
    gpus = {"gpus": GpuRequest(per_node=1), "gpus_total": 1, "priority": 1000, "time_limit_s": 10**6}
    return replace(plain, **{**gpus, **fields})


class Slurm(Cluster):
    """Jobs that take every change, but for those in ``refuses``; down where ``down``."""

    def __init__(self, *jobs: Job) -> None:
        self.records = {job.job_id: job for job in jobs}
        self.changes: list[Change] = []
        self.refuses: set[int] = set()
        self.runs: list[Outcome] = []
        self.since = 0
        self.down = False

    def jobs(self) -> list[Job]:
        if self.down:
            raise ClusterError("can't load jobs: Unable to contact slurm controller")
        return list(self.records.values())

    def partitions(self) -> tuple[Partition, ...]:
        return (A100, A6000)

    def script(self, job_id: int) -> bytes:
        if job_id in self.refuses:
            raise Refused(f"can't read the script of job {job_id}")
        return b"#!/bin/sh\n\xe9\n"

    def apply(self, change: Change) -> None:
        if change.job_id in self.refuses:
            raise Refused(f"job {change.job_id}: Job is no longer pending execution")
        self.changes.append(change)
        record = self.records[change.job_id]
        partitions = tuple(change.partition.split(",")) if change.partition else record.partitions
        factor = record.site_factor if change.site_factor is None else change.site_factor
        begin = 1000 if change.lift_grace else record.begin_time
        self.records[change.job_id] = replace(record, partitions=partitions, site_factor=factor, begin_time=begin)

    def finished(self, since: int) -> list[Outcome]:
        if self.down:
            raise ClusterError("sacct: error: Problem talking to the database")
        self.since = since
        return [run for run in self.runs if run.end_time >= since]

    def write_energy(self, job_id: int, submit_time: int, start_time: int, joules: int) -> None:
        raise AssertionError("agent.write_energy is off")


class Daemon(Client):
    """Knows an estimate for every job: 1000 s on a100, 500 s on a6000; remembers what it was told."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}
        self.told: list[tuple[str, Any]] = []
        self.away = False
        self.expected: dict[str, Any] | None = None
        """What it knows of running jobs."""
        self.fails: dict[int, int] = {}
        """Job id -> the status with which its script is refused; 0: no answer."""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if self.away:
            raise ClientError("slurmcastd doesn't run here")
        json.dumps(body, allow_nan=False)
        if path == "/v1/agent/script" and body["job"]["job_id"] in self.fails:
            raise ClientError("no", self.fails[body["job"]["job_id"]])
        if path != "/v1/agent/jobs":
            self.told.append((path.rsplit("/", 1)[1], body))
            return {}
        running = [
            {"job_id": record["job_id"], "submit_time": record["submit_time"], "estimate": self.expected}
            for record in body["running"]
        ]
        jobs = [self._entry(record) for record in body["jobs"]]
        return {"jobs": jobs, "running": running, "kappa": {"general": 0.0}, "revision": 1}

    def _entry(self, record: dict[str, Any]) -> dict[str, Any]:
        times = {"a100": 1000.0, "a6000": 500.0}
        estimates = [
            {
                "partition": name,
                "gpus": 1,
                "time_s": {"p10": t, "p50": t, "p90": t},
                "energy_kwh": None,
                "source": "probe",
            }
            for name, t in times.items()
        ]
        key = {"job_id": record["job_id"], "submit_time": record["submit_time"]}
        answer = {"estimates": estimates, "final": True, "partition_named": False, "script_wanted": False}
        return key | answer | self.entries.get(record["job_id"], {})

    def of(self, kind: str) -> list[Any]:
        return [body for path, body in self.told if path == kind]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    paths = Paths(run_dir=tmp_path, state_dir=tmp_path, agent_state_dir=tmp_path)
    return Config(paths=paths)


class World:
    def __init__(self, config: Config, *jobs: Job) -> None:
        self.now = 1000.0
        self.slurm, self.daemon = Slurm(*jobs), Daemon()
        self.config = config
        self.agent = self.new_agent()

    def new_agent(self) -> Agent:
        journal = Journal(self.config.paths.journal)
        return Agent(self.config, self.slurm, self.daemon, journal, clock=lambda: self.now)


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


def test_a_refusal_is_not_repeated_at_once(config: Config) -> None:
    world = World(config, job(1))
    world.slurm.refuses = {1}
    world.agent.cycle()
    size = config.paths.journal.stat().st_size
    world.slurm.refuses = set()
    world.agent.cycle()
    assert (world.slurm.changes, config.paths.journal.stat().st_size) == ([], size)
    world.now += 400
    world.agent.cycle()
    assert len(world.slurm.changes) == 1


@pytest.mark.parametrize("edge", ["slurm", "daemon"])
def test_an_edge_that_is_away_stops_the_cycle(config: Config, edge: str) -> None:
    world = World(config, job(1))
    world.slurm.down, world.daemon.away = edge == "slurm", edge == "daemon"
    with pytest.raises(ClusterError if edge == "slurm" else ClientError):
        world.agent.cycle()
    assert world.slurm.changes == []


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


def test_outcomes_are_told_once(config: Config) -> None:
    world = World(config)
    world.slurm.runs = [Outcome(9, 1, "a100", "a100", 1, "COMPLETED", 500, 900, 400.0)]
    assert world.agent.report_outcomes() == 1
    assert world.slurm.since == 1000 - 30 * 86400
    assert world.agent.report_outcomes() == 0
    world.now += 1000
    world.new_agent().report_outcomes()
    assert world.slurm.since == 1000 - 300


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


def test_lease(config: Config) -> None:
    world = World(config)
    world.agent.write_lease()
    assert config.paths.lease.read_text() == "on 1090 8\n"
    assert oct(config.paths.lease.stat().st_mode & 0o777) == "0o644"
    world.agent.write_lease("off")
    assert config.paths.lease.read_text() == "off 1090 8\n"
    assert [path.name for path in config.paths.run_dir.iterdir()] == ["lease"]


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
