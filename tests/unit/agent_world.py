"""A small Slurm and a small daemon, both played in memory, with an agent between them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from slurmcast.agent.cycle import Agent
from slurmcast.agent.journal import Journal
from slurmcast.client import FORGOTTEN, Client, ClientError
from slurmcast.cluster.base import Cluster, ClusterError, Refused
from slurmcast.config import Config
from slurmcast.model import Change, GpuRequest, Job, Node, Outcome, Partition

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
        self.records: dict[tuple[int, int], dict[str, Any]] = {}
        """The pending jobs that it was told of."""
        self.entries: dict[int, dict[str, Any]] = {}
        self.told: list[tuple[str, Any]] = []
        self.away = self.forgets = False
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
        if self.forgets and body["since"] is not None:
            raise ClientError("tell me of all", FORGOTTEN)
        if body["since"] is None:
            self.records, self.forgets = {}, False
        for key in body["gone"]:
            del self.records[tuple(key)]
        self.records |= {(record["job_id"], record["submit_time"]): record for record in body["jobs"]}
        jobs = [self._entry(record) for record in self.records.values()]
        return {"look": "1", "jobs": jobs, "running": running, "kappa": {"general": 0.0}, "revision": 1}

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


class World:
    def __init__(self, config: Config, *jobs: Job) -> None:
        self.now = 1000.0
        self.slurm, self.daemon = Slurm(*jobs), Daemon()
        self.config = config
        self.agent = self.new_agent()

    def new_agent(self) -> Agent:
        journal = Journal(self.config.paths.journal)
        return Agent(self.config, self.slurm, self.daemon, journal, clock=lambda: self.now)
