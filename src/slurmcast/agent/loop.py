"""The agent's loop: snapshot -> plan -> journal -> apply -> read back -> report.

The daemon knows the estimates, Slurm knows the jobs; the loop keeps nothing of its own but journal and lease. While
the daemon or slurmctld is away nothing is changed and the lease runs out, so jobs get no grace.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from slurmcast.agent import energy
from slurmcast.agent.journal import Journal
from slurmcast.agent.plan import Plan, plan
from slurmcast.client import Client, ClientError
from slurmcast.cluster.base import Cluster, ClusterError
from slurmcast.codec import from_json, to_json
from slurmcast.config import Config
from slurmcast.model import Change, Decision, Estimate, Job, Outcome, Partition, PendingJob, Snapshot

log = logging.getLogger("slurmcast.agent")

RELEVANT_GRES = ("gpu", "shard", "mps")
OUTCOME_OVERLAP_S = 300
"""Accounting records may arrive late: each load of finished runs reaches back this far before the last."""


@dataclass
class Agent:
    """One agent: its edges, and what it remembers between cycles."""

    config: Config
    cluster: Cluster
    client: Client
    journal: Journal
    clock: Callable[[], float] = time.time
    outcomes_since: int = 0
    kappa: float = 0.0
    refused: dict[tuple[int, int], str] = field(default_factory=dict)
    """Jobs whose change Slurm refused, with its words: not asked again until the plan wants something else of them."""

    def cycle(self, dry_run: bool = False) -> Plan:
        """One look at the cluster and what follows. Raises ClusterError or ClientError where an edge is away."""
        jobs, partitions = self.cluster.jobs(), self.cluster.partitions()
        pending = [job for job in jobs if job.state == "PENDING" and _asks_for_gpus(job)]
        snapshot = self._snapshot(jobs, partitions, pending)
        wanted = plan(snapshot, self.kappa, self.config.agent)
        by_id = {job.job_id: job for job in pending}
        if dry_run or self.config.agent.mode != "on":
            self._report(wanted.decisions, set())
            return wanted
        changes = [change for change in wanted.changes if self._worth_asking(change)]
        self.journal.write(self.clock(), [(change, by_id[change.job_id]) for change in changes])
        made = {change.job_id for change in changes if self._apply(change)}
        self._report(wanted.decisions, made)
        self.journal.compact({(job.job_id, job.submit_time) for job in pending})
        return wanted

    def _snapshot(self, jobs: list[Job], partitions: tuple[Partition, ...], pending: list[Job]) -> Snapshot:
        body = {"jobs": [to_json(job) for job in pending], "default": [p.name for p in partitions if p.default]}
        answer = self.client.request("POST", "/v1/agent/jobs", body)
        self.kappa = float(answer["kappa"])
        known = {(entry["job_id"], entry["submit_time"]): entry for entry in answer["jobs"]}
        self._read_back([j for j in pending if known.get((j.job_id, j.submit_time), {}).get("script_wanted")])
        rows = tuple(self._pending(job, known.get((job.job_id, job.submit_time), {})) for job in pending)
        return Snapshot(self.clock(), partitions, rows, tuple(job for job in jobs if job.state == "RUNNING"))

    def _pending(self, job: Job, entry: dict[str, Any]) -> PendingJob:
        before = self.journal.before(job.job_id, job.submit_time)
        return PendingJob(
            job,
            estimates=tuple(from_json(Estimate, estimate) for estimate in entry.get("estimates", ())),
            final=bool(entry.get("final", False)),
            partition_named=bool(entry.get("partition_named", True)),
            allowed_partitions=tuple(entry.get("allowed_partitions", ())),
            original_partitions=tuple(before.partition.split(",")) if before else (),
            grace_until=int(entry.get("grace_until", 0)),
            pinned_by_us=bool(before and before.pinned),
            opted_in=bool(entry.get("opted_in", False)),
            opted_out=bool(entry.get("opted_out", False)),
        )

    def _read_back(self, jobs: list[Job]) -> None:
        """Hand over scripts that the hook didn't (design principle 8), some per cycle."""
        for job in jobs[: self.config.agent.max_readback]:
            try:
                script = base64.b64encode(self.cluster.script(job.job_id)).decode()
            except ClusterError as error:
                log.warning("%s", error)
                continue
            self.client.request("POST", "/v1/agent/script", {"job": to_json(job), "script_base64": script})

    def _worth_asking(self, change: Change) -> bool:
        return self.refused.get((change.job_id, change.submit_time)) != _wish(change)

    def _apply(self, change: Change) -> bool:
        """Make one change; whether Slurm did. A job may have started or gone since the snapshot: that is no fault."""
        try:
            self.cluster.apply(change)
        except ClusterError as error:
            log.info("not changed: %s", error)
            self.refused[change.job_id, change.submit_time] = _wish(change)
            return False
        log.info("job %d: %s", change.job_id, json.dumps({k: v for k, v in to_json(change).items() if v}))
        return True

    def _report(self, decisions: tuple[Decision, ...], made: set[int]) -> None:
        body = [to_json(replace(decision, changed=decision.job_id in made)) for decision in decisions]
        if body:
            self.client.request("POST", "/v1/agent/decisions", {"decisions": body})

    def report_outcomes(self) -> int:
        """Hand finished runs, with their energy where it was measured, to the daemon; how many."""
        now = int(self.clock())
        runs = self.cluster.finished(self.outcomes_since)
        records = energy.read(Path(self.config.agent.energy_dir), {run.job_id for run in runs})
        outcomes: list[Outcome] = [energy.join(run, records) for run in runs]
        if outcomes:
            self.client.request("POST", "/v1/agent/outcomes", {"outcomes": [to_json(o) for o in outcomes]})
        self.outcomes_since = max(self.outcomes_since, now - OUTCOME_OVERLAP_S)
        return len(outcomes)

    def write_lease(self, mode: str | None = None) -> None:
        """Tell the hook that somebody is here, for ``lease_s`` seconds."""
        agent, path = self.config.agent, self.config.paths.lease
        new = path.with_name(f".lease.{os.getpid()}")
        new.write_text(f"{mode or agent.mode} {int(self.clock()) + agent.lease_s} {agent.grace_s}\n")
        new.chmod(0o644)
        new.replace(path)


def _asks_for_gpus(job: Job) -> bool:
    return job.gpus_total > 0 or job.gpus is not None


def _wish(change: Change) -> str:
    """What a change asks for, without its reason."""
    return json.dumps(to_json(replace(change, reason="")))


class Waker(threading.Thread):
    """Sets ``event`` whenever the daemon has new estimates, by a long poll of its own connection."""

    def __init__(self, client: Client, event: threading.Event, stop: threading.Event) -> None:
        super().__init__(daemon=True, name="waker")
        self._client, self._event, self._halt = client, event, stop

    def run(self) -> None:
        revision = -1
        while not self._halt.is_set():
            try:
                answer = self._client.request("GET", f"/v1/agent/wait?revision={revision}&timeout=5")
            except ClientError:
                self._halt.wait(1.0)
                continue
            if answer["revision"] != revision:
                revision = answer["revision"]
                self._event.set()


def run(config: Config, once: bool = False, dry_run: bool = False) -> int:
    """Run the agent until SIGTERM, or one cycle with ``once``. Exit status: 0, or 1 where a single cycle failed."""
    from slurmcast.cluster.pyslurm_cluster import PyslurmCluster

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    agent = Agent(config, PyslurmCluster(config.partition), Client(config), Journal(config.paths.journal))
    if once or dry_run:
        return _single(agent, dry_run)
    wake, stop = threading.Event(), threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        wake.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    Waker(Client(config), wake, stop).start()
    _loop(agent, wake, stop)
    agent.write_lease("off")
    return 0


def _single(agent: Agent, dry_run: bool) -> int:
    try:
        wanted = agent.cycle(dry_run)
    except (ClusterError, ClientError) as error:
        print(f"slurmcast agent: {error}", file=sys.stderr)
        return 1
    if dry_run:
        print(json.dumps([to_json(change) for change in wanted.changes], indent=2))
    return 0


def _loop(agent: Agent, wake: threading.Event, stop: threading.Event) -> None:
    period, away = agent.config.agent.period_s, 0
    next_outcomes = 0.0
    while not stop.is_set():
        wake.clear()
        try:
            agent.cycle()
            agent.write_lease()
            if agent.clock() >= next_outcomes:
                agent.report_outcomes()
                next_outcomes = agent.clock() + max(period, 10.0)
            away = 0
        except (ClusterError, ClientError, OSError) as error:
            # OSError: a full disk, say. Nothing was sent that the journal doesn't hold; try again later.
            away += 1
            log.warning("cycle failed (%d in a row): %s", away, error)
        wake.wait(period * min(2**away, 8) if away else period)
