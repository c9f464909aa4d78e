"""The pyslurm adapter. Importing it without a usable slurm.conf ends the process, so only the agent does.

What pyslurm 25.11 doesn't show comes from Slurm's own commands: site factors (sprio), requests other than --gres
(squeue, only while there are jobs whose request isn't known yet), billing weights and scripts (scontrol), runs before a
requeue (sacct).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyslurm

from slurmcast.cluster import accounting, records, usage
from slurmcast.cluster.accounting import Accounting
from slurmcast.cluster.base import ClusterError, Refused
from slurmcast.config import PartitionConfig
from slurmcast.model import Change, Job, Outcome, Partition

COMMAND_TIMEOUT_S = 30
USERS_ARE_KNOWN_FOR_S = 600
AHEAD_S = 60
"""How far the nodes' clocks may be ahead of ours: what ended later than that isn't over yet."""
JOB_ERRORS = range(2000, 3000)
"""Slurm's errors about a request (slurm_errno.h); others are about reaching slurmctld."""
IN_STANDBY_MODE = 2027


class _ZeroThatCounts(int):
    """pyslurm sends a field only where it is true; a site factor of 0 must be sent too."""

    def __bool__(self) -> bool:
        return True


class PyslurmCluster:
    """Slurm through pyslurm; finished runs through sacct."""

    def __init__(self, managed: Sequence[PartitionConfig], usage_from: Sequence[str] = ()) -> None:
        """``usage_from``: names of readers (:mod:`slurmcast.cluster.usage`) that finished runs are shown to."""
        self._managed, self._usage_from = managed, usage_from
        self._requests: dict[tuple[int, int], Mapping[str, str]] = {}
        self._users_until = 0.0

    def jobs(self) -> list[Job]:
        """All pending and running jobs: one load, one sprio."""
        if time.monotonic() > self._users_until:
            records.forget_users()
            self._users_until = time.monotonic() + USERS_ARE_KNOWN_FOR_S
        try:
            loaded = [r for r in pyslurm.Jobs.load().values() if r.state in ("PENDING", "RUNNING")]
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load jobs: {error}") from None
        pending = [record for record in loaded if record.state == "PENDING"]
        self._learn_requests(pending)
        known = records.priorities(_output("sprio", "-h", "-o", records.SPRIO_FORMAT)) if pending else {}
        none = records.Priority()
        return [records.job(r, known.get(r.id, none), self._requests.get((r.id, r.submit_time))) for r in loaded]

    def _learn_requests(self, pending: Sequence[Any]) -> None:
        """Remember the requests that pyslurm doesn't show, and forget those of jobs that wait no more."""
        hidden = {(r.id, r.submit_time): r for r in pending if records.gpus_outside_gres(r)}
        self._requests = {key: fields for key, fields in self._requests.items() if key in hidden}
        if all(key in self._requests for key in hidden):
            return
        shown = records.requests(_output("squeue", "-h", "-a", "-t", "PENDING", "-O", records.squeue_format()))
        self._requests |= {key: shown[key[0]] for key in hidden if key[0] in shown}

    def partitions(self) -> tuple[Partition, ...]:
        try:
            partitions, nodes = pyslurm.Partitions.load(), list(pyslurm.Nodes.load().values())
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load partitions: {error}") from None
        weights = records.billing_weights(_output("scontrol", "show", "partition", "--oneliner"))
        found = []
        for config in self._managed:
            if config.name in partitions:
                members = [node for node in nodes if config.name in node.partitions]
                translated, types = map(records.node, members), map(records.gpu_type, members)
                bills = weights.get(config.name, ())
                found.append(records.partition(partitions[config.name], config, translated, types, bills))
        return tuple(found)

    def script(self, job_id: int) -> bytes:
        # pyslurm's get_batch_script decodes strictly, so a Latin-1 script raises; scontrol gives the bytes.
        try:
            return _run("scontrol", "write", "batch_script", str(job_id), "-")
        except ClusterError as error:
            raise Refused(f"can't read the script of job {job_id}: {error}") from None

    def apply(self, change: Change) -> None:
        fields: dict[str, Any] = {}
        if change.partition is not None:
            fields["partitions"] = change.partition.split(",")
        if change.site_factor is not None:
            fields["site_factor"] = _ZeroThatCounts(change.site_factor)
        if change.priority is not None:
            fields["priority"] = change.priority
        if change.lift_grace:
            fields["begin_time"] = "now"
        try:
            pyslurm.Job(change.job_id).modify(pyslurm.JobSubmitDescription(**fields))
        except pyslurm.RPCError as error:
            final = error.errno in JOB_ERRORS and error.errno != IN_STANDBY_MODE
            raise (Refused if final else ClusterError)(f"job {change.job_id}: {error}") from None

    def finished(self, since: int) -> list[Outcome]:
        names, until = {config.name for config in self._managed}, int(time.time()) + AHEAD_S
        ended = [
            accounting.outcome(record)
            for record in Accounting().ended(since, until)
            if record.partition in names and record.gpus and 0 < record.start_time <= record.end_time
        ]
        return self._with_usage(ended, since, until) if self._usage_from else ended

    def write_energy(self, job_id: int, submit_time: int, start_time: int, joules: int) -> None:
        # sacctmgr changes the last run of a job, whatever times it is given, and all tasks under an array's own id.
        try:
            record = pyslurm.db.Job.load(job_id)
        except pyslurm.RPCError as error:
            raise Refused(f"job {job_id}: {error}") from None
        if (record.submit_time, record.start_time) != (submit_time, start_time) or not record.end_time:
            raise Refused(f"job {job_id}: it was requeued, and Slurm only changes its last run")
        name = str(job_id) if record.array_id is None else f"{record.array_id}_{record.array_task_id}"
        _run("sacctmgr", "--immediate", "modify", "job", "where", f"jobid={name}", "set", f"TRES=energy={joules}")

    def _with_usage(self, ended: Sequence[Outcome], since: int, until: int) -> list[Outcome]:
        """With what was measured of them, as far as pyslurm shows it: it has the last run of each job alone."""
        # A number, not "now": pyslurm takes that word from a clock of its own.
        wanted = pyslurm.db.JobFilter(start_time=since, end_time=until)
        try:
            loaded = {(record.id, record.start_time): record for record in pyslurm.db.Jobs.load(wanted).values()}
            cpus_of = {name: node.effective_cpus or node.total_cpus for name, node in pyslurm.Nodes.load().items()}
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load what runs used: {error}") from None

        def completed(outcome: Outcome) -> Outcome:
            record = loaded.get((outcome.job_id, outcome.start_time))
            if record is None:
                return outcome
            alone = usage.alone(record.cpus, pyslurm.utils.nodelist_from_range_str(record.nodelist), cpus_of)
            return usage.read(self._usage_from, usage.Finished(record, alone), outcome)

        return [completed(outcome) for outcome in ended]


def _output(*command: str) -> str:
    return _run(*command).decode(errors="replace")


def _run(*command: str) -> bytes:
    """A Slurm command's output. Raises ClusterError where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"can't run {command[0]}: {error}") from None
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
