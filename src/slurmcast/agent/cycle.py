"""One look at the cluster and what follows: snapshot -> plan -> journal -> apply -> report.

The daemon knows the estimates, Slurm knows the jobs; the agent keeps nothing of its own but journal and lease. Each
change is read back by the next cycle, whose plan asks again for what did not come true.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slurmcast.agent.decisions import Decisions
from slurmcast.agent.energy_writer import EnergyWriter
from slurmcast.agent.exchange import Exchange
from slurmcast.agent.journal import Before, Journal
from slurmcast.agent.known import Memo
from slurmcast.agent.plan import Plan, plan
from slurmcast.agent.told import Told, untold
from slurmcast.client import Client, ClientError
from slurmcast.cluster.base import Cluster, Refused
from slurmcast.codec import from_json, to_json
from slurmcast.config import Config
from slurmcast.model import DAY_S, HOUR_S, Change, Estimate, Job, Outcome, Partition, PendingJob, RunningJob, Snapshot
from slurmcast.policy import lookahead
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.kappa import Kappas
from slurmcast.script.reader import OPT_OUT
from slurmcast.series import CARBON, PRICE
from slurmcast.series_file import SeriesFile

log = logging.getLogger("slurmcast.agent")

OUTCOME_OVERLAP_S = 300
"""Accounting may arrive late: for so long after a load, loads go back to where it did."""
FIRST_OUTCOMES_S = int(30 * DAY_S)
"""How far back the first load of finished runs reaches."""
OUTCOMES_AT_A_TIME = 5000
"""Runs in one request, which the daemon stores within a second; the first load may have hundreds of thousands."""
REFUSAL_HOLDS_S = 300
"""What Slurm or the daemon refused is asked again after this time."""


@dataclass
class Agent:
    """The agent's edges, and what it remembers between cycles so as not to repeat itself."""

    config: Config
    cluster: Cluster
    client: Client
    journal: Journal
    clock: Callable[[], float] = time.time
    exchange: Exchange = field(init=False)
    """What the daemon is told of pending jobs, and what it says of them."""
    refused: dict[str, float] = field(default_factory=dict)
    """What Slurm refused -> until when it isn't asked again."""
    told: Told = field(default_factory=dict)
    """What the daemon has of the decisions."""
    memo: Memo = field(default_factory=Memo)
    """What the last plan knew of the jobs that stay the same objects."""
    pending: dict[tuple[int, int], tuple[tuple[object, ...], PendingJob]] = field(default_factory=dict)
    """(Job id, submit time) -> what was known of the pending job in the last cycle, and the object made of it."""
    running: dict[tuple[int, int], Estimate | None] = field(default_factory=dict)
    """(Job id, submit time) of running jobs that the daemon was told of, since some start before any cycle sees them
    pending -> what was expected of each."""
    placed: dict[tuple[int, int], str] = field(default_factory=dict)
    """(Job id, submit time) -> the partition where we put the job, as long as Slurm's word on it is known."""
    taken_over: list[Job] = field(default_factory=list)
    """Jobs that somebody else was seen to have moved, which the journal is still to be told."""
    sent_outcomes: dict[tuple[int, int], Outcome] = field(default_factory=dict)
    """(Job id, start time) -> the outcome that the daemon has, as far back as loads of finished runs reach."""
    loads: list[int] = field(default_factory=list)
    """When finished runs were loaded, as far as the next load is to reach back."""
    late: bool = False
    """Whether the log says that most jobs have waited for too long."""
    prices: SeriesFile | None = None
    """What energy is weighed by."""
    energies: EnergyWriter | None = None
    """Writes measured energy to Slurm's accounting, where the site wants that."""

    def __post_init__(self) -> None:
        self.exchange = Exchange(self.client)
        path = self.config.agent.price_file
        if path is not None:
            self.prices = SeriesFile(path, "agent.price_file", "energy counts alike at all hours", (CARBON, PRICE))
        if self.config.agent.write_energy and self.config.agent.mode == "on":
            path = self.config.paths.agent_state_dir / "energies.json"
            self.energies = EnergyWriter(path, self.cluster, self.client)

    def cycle(self, dry_run: bool = False) -> Plan:
        """Raises ClusterError or ClientError where an edge is away, OSError where the journal can't be written: then
        nothing was asked of Slurm that the journal doesn't hold."""
        jobs, partitions = self.cluster.jobs(), self.cluster.partitions()
        pending = [job for job in jobs if job.state == "PENDING" and _asks_for_gpus(job)]
        self._forget(pending)
        snapshot, kappas = self._snapshot(jobs, partitions, pending)
        wanted = plan(snapshot, kappas, self.config.agent, self._inputs(partitions), self.memo)
        if dry_run:
            return wanted
        self._warn_of_late(pending)
        made = self._make(wanted.changes, pending) if self.config.agent.mode == "on" else set()
        self._report(wanted.decisions, made)
        self.journal.compact(pending)
        return wanted

    def _warn_of_late(self, pending: Sequence[Job]) -> None:
        """Say in the log that ``lookahead`` has become EASY, once until it hasn't."""
        settings = self.config.agent
        if settings.policy != "lookahead":
            return
        submitted = [job.submit_time for job in pending]
        warning = lookahead.warning(submitted, self.clock(), settings.longest_wait_h * HOUR_S)
        if warning and not self.late:
            log.warning("%s; set it well above the usual waits", warning)
        self.late = warning is not None

    def _inputs(self, partitions: Iterable[Partition]) -> Inputs:
        """The site's cap and prices as they are now."""
        power_w = {part.name: part.prior_power_w for part in self.config.partition}
        by_partition = np.array([power_w.get(partition.name) or 0.0 for partition in partitions])
        return Inputs(self.config.agent.power_cap_w, by_partition, self.prices.series() if self.prices else None)

    def _snapshot(
        self, jobs: list[Job], partitions: tuple[Partition, ...], pending: list[Job]
    ) -> tuple[Snapshot, Kappas]:
        """What is known of the moment, and kappa as it is set now."""
        running = [job for job in jobs if job.state == "RUNNING" and _asks_for_gpus(job)]
        fresh = [job for job in running if (job.job_id, job.submit_time) not in self.running]
        known, answer = self.exchange.ask(pending, fresh, [p.name for p in partitions if p.default])
        if self.exchange.anew:
            self.told = {}
        self._read_back(j for j in pending if known.get((j.job_id, j.submit_time), {}).get("script_wanted"))
        self.taken_over = []
        rows = tuple(self._pending(job, known.get((job.job_id, job.submit_time), {})) for job in pending)
        told = {(entry["job_id"], entry["submit_time"]): entry["estimate"] for entry in answer["running"]}
        expected = self.running | {key: found and from_json(Estimate, found) for key, found in told.items()}
        self.running = {(job.job_id, job.submit_time): expected.get((job.job_id, job.submit_time)) for job in running}
        there = tuple(RunningJob(job, self.running[job.job_id, job.submit_time]) for job in running)
        return Snapshot(self.clock(), partitions, rows, there), from_json(Kappas, answer["kappa"])

    def _pending(self, job: Job, entry: dict[str, Any]) -> PendingJob:
        """The same object as in the last cycle where nothing has changed, so that nothing is decoded or judged anew."""
        before = self.journal.before(job)
        moved_by_others = before is not None and self._is_moved_by_others(job, before, ",".join(job.partitions))
        facts = job, entry, before, moved_by_others
        key = job.job_id, job.submit_time
        if key not in self.pending or self.pending[key][0] != facts:
            self.pending[key] = facts, _pending_job(job, entry, before, moved_by_others)
        return self.pending[key][1]

    def _is_moved_by_others(self, job: Job, before: Before, here: str) -> bool:
        """Whether user or admin moved the job after us, which names the partition."""
        # An update of an array's job reaches the tasks that were split off, so there a change may well be ours.
        ours = here if job.is_array else self.placed.get((job.job_id, job.submit_time), here)
        moved = here != ours or (bool(before.places) and here not in (before.partition, *before.places))
        if moved and not before.taken_over:
            self.taken_over.append(job)
        return moved or before.taken_over

    def _read_back(self, jobs: Iterable[Job]) -> None:
        """Hand over scripts that the hook didn't, some per cycle.

        A script that can't be dealt with is its own job's trouble: the cycle goes on for the others.
        """
        wanted = [(job, f"script {job.job_id} {job.submit_time}") for job in jobs if job.batch]
        for job, wish in [pair for pair in wanted if pair[1] not in self.refused][: self.config.agent.max_readback]:
            try:
                script = base64.b64encode(self.cluster.script(job.job_id)).decode()
            except Refused as refusal:
                self._remember_refusal(wish, refusal)
                continue
            try:
                self.client.request("POST", "/v1/agent/script", {"job": to_json(job), "script_base64": script})
            except ClientError as error:
                if not error.status:  # away, or busy with a hard script: the other scripts can wait too
                    log.warning("scripts are not handed over: %s", error)
                    break
                self._remember_refusal(wish, error)

    def _make(self, changes: Iterable[Change], pending: Iterable[Job]) -> set[int]:
        """Journal the changes, then make them; the ids of the jobs that Slurm changed."""
        self.journal.take_over(self.clock(), self.taken_over)
        by_id = {job.job_id: job for job in pending}
        asked = [change for change in changes if _wish(change) not in self.refused]
        self.journal.write(self.clock(), [(change, by_id[change.job_id]) for change in asked])
        made = set()
        for change in asked:
            key = (change.job_id, change.submit_time)
            if change.partition is not None:
                self.placed.pop(key, None)
            try:
                self.cluster.apply(change)
            except Refused as refusal:  # it may have started or gone since the snapshot: that is no fault
                self._remember_refusal(_wish(change), refusal)
                continue
            log.info("job %d: %s", change.job_id, _wish(change))
            made.add(change.job_id)
            if change.partition is not None:
                self.placed[key] = change.partition
        return made

    def _remember_refusal(self, wish: str, refusal: Refused | ClientError) -> None:
        log.info("not done: %s", refusal)
        self.refused[wish] = self.clock() + REFUSAL_HOLDS_S

    def _forget(self, pending: Iterable[Job]) -> None:
        now = self.clock()
        keys = {(job.job_id, job.submit_time) for job in pending}
        self.placed = {key: partition for key, partition in self.placed.items() if key in keys}
        self.pending = {key: found for key, found in self.pending.items() if key in keys}
        latest = now + REFUSAL_HOLDS_S  # what lies beyond is of a clock that was ahead
        self.refused = {wish: until for wish, until in self.refused.items() if now < until <= latest}

    def _report(self, decisions: Decisions, made: set[int]) -> None:
        """Tell the daemon what is new among the decisions, and the order."""
        body, told = untold(decisions, self.told, made)
        self.client.request("POST", "/v1/agent/decisions", body)
        self.told = told

    def report_outcomes(self) -> int:
        """Hand finished runs to the daemon; how many were new.

        How far back the next load is to reach is kept in a file, so that a restart neither skips nor repeats much; a
        run that is sent twice is stored once. While slurmdbd is away slurmctld keeps what it has to tell, and may tell
        it after the first load that succeeds again: so what a load reached back to is left behind some time after it.
        """
        mark, now = self.config.paths.agent_state_dir / "outcomes-until", int(self.clock())
        try:
            since = int(mark.read_text())
        except (FileNotFoundError, ValueError):
            since = 0
        first = not 0 < since <= now  # ahead of now: of a clock that was wrong
        runs = self.cluster.finished(now - FIRST_OUTCOMES_S if first else since)
        outcomes = {(run.job_id, run.start_time): run for run in runs}
        news = [outcome for key, outcome in outcomes.items() if self.sent_outcomes.get(key) != outcome]
        for first_of in range(0, len(news), OUTCOMES_AT_A_TIME):
            some = [to_json(outcome) for outcome in news[first_of : first_of + OUTCOMES_AT_A_TIME]]
            self.client.request("POST", "/v1/agent/outcomes", {"outcomes": some})
        if self.energies is not None:
            self.energies.expect(news)
        self.sent_outcomes = outcomes
        loads = [at for at in self.loads if at <= now] + [now]
        settled = now - OUTCOME_OVERLAP_S
        since = settled if first else max([since, *(at for at in loads if at <= settled)])
        self.loads = [at for at in loads if at > since]
        _write_at_once(mark, f"{since}\n")
        if self.energies is not None:
            self.energies.turn(since)
        return len(news)

    def write_lease(self, mode: str | None = None) -> None:
        """Tell the hook that somebody is here, for ``lease_s`` seconds."""
        agent = self.config.agent
        line = f"{mode or agent.mode} {int(self.clock()) + agent.lease_s} {agent.grace_s}\n"
        _write_at_once(self.config.paths.lease, line)


def _pending_job(job: Job, entry: dict[str, Any], before: Before | None, moved_by_others: bool) -> PendingJob:
    """From Slurm's record, the daemon's answer and what the journal says of the job before our first change."""
    keeps_home = before is None or moved_by_others
    return PendingJob(
        job,
        estimates=tuple(from_json(Estimate, estimate) for estimate in entry.get("estimates", ())),
        final=bool(entry.get("final", False)),
        partition_named=moved_by_others or bool(entry.get("partition_named", True)),
        allowed_partitions=() if moved_by_others else tuple(entry.get("allowed_partitions", ())),
        original_partitions=() if keeps_home or before is None else tuple(before.partition.split(",")),
        grace_until=int(entry.get("grace_until", 0)),
        pinned_by_us=before is not None and before.pinned,
        opted_in=bool(entry.get("opted_in", False)) and not moved_by_others,
        opted_out=bool(entry.get("opted_out", False)) or OPT_OUT in re.split(r"[\s,;]+", job.comment),
    )


def _write_at_once(path: Path, text: str) -> None:
    """Readers see the old text or the new, never half of it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def _asks_for_gpus(job: Job) -> bool:
    return job.gpus_total > 0 or job.gpus is not None


def _wish(change: Change) -> str:
    """What a change asks for, without its reason."""
    return json.dumps(
        {name: value for name, value in to_json(change).items() if value is not None and name != "reason"}
    )
