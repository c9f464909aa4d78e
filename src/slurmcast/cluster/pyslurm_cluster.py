"""The pyslurm adapter. Importing it without a usable slurm.conf ends the process, so only the agent does.

Tried with pyslurm 25.11.2 against Slurm 26.05.
"""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyslurm

from slurmcast.cluster.base import ClusterError
from slurmcast.config import PartitionConfig
from slurmcast.model import Change, GpuRequest, Job, Node, Outcome, Partition

COMMAND_TIMEOUT_S = 30
UNUSABLE_STATES = ("DOWN", "DRAIN", "FAIL", "UNKNOWN", "FUTURE", "MAINT", "RESERVED", "POWERED_DOWN", "NO_RESPOND")
SHARED_GRES = ("shard", "mps")


class _ZeroThatCounts(int):
    """pyslurm sends a field only where it is true; a site factor of 0 must be sent too."""

    def __bool__(self) -> bool:
        return True


class PyslurmCluster:
    """Slurm through pyslurm; accounting through pyslurm.db."""

    def __init__(self, managed: Sequence[PartitionConfig]) -> None:
        self._managed = managed

    def jobs(self) -> list[Job]:
        """All jobs but finished ones; site factors from sprio, which pyslurm doesn't have."""
        try:
            loaded = list(pyslurm.Jobs.load().values())
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load jobs: {error}") from None
        factors = _priorities() if any(record.state == "PENDING" for record in loaded) else {}
        return [_job(record, factors) for record in loaded if record.state in ("PENDING", "RUNNING")]

    def partitions(self) -> tuple[Partition, ...]:
        try:
            partitions, nodes = pyslurm.Partitions.load(), pyslurm.Nodes.load()
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load partitions: {error}") from None
        found = []
        for config in self._managed:
            if config.name in partitions:
                members = [_node(node) for node in nodes.values() if config.name in node.partitions]
                gpu_types = [_gpu_type(n.configured_gres) for n in nodes.values() if config.name in n.partitions]
                found.append(_partition(partitions[config.name], config, members, gpu_types))
        return tuple(found)

    def script(self, job_id: int) -> bytes:
        # pyslurm's get_batch_script decodes strictly, so a Latin-1 script raises; scontrol gives the bytes.
        done = subprocess.run(
            ["scontrol", "write", "batch_script", str(job_id), "-"],
            capture_output=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"can't read the script of job {job_id}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def apply(self, change: Change) -> None:
        fields: dict[str, Any] = {}
        if change.partition is not None:
            fields["partitions"] = change.partition.split(",")
        if change.gres_per_node is not None:
            fields["gres_per_node"] = change.gres_per_node
        if change.site_factor is not None:
            fields["site_factor"] = _ZeroThatCounts(change.site_factor)
        if change.priority is not None:
            fields["priority"] = change.priority
        if change.lift_grace:
            fields["begin_time"] = "now"
        try:
            pyslurm.Job(change.job_id).modify(pyslurm.JobSubmitDescription(**fields))
        except pyslurm.RPCError as error:
            raise ClusterError(f"job {change.job_id}: {error}") from None

    def finished(self, since: int) -> list[Outcome]:
        wanted = pyslurm.db.JobFilter(start_time=since, end_time="now")
        try:
            records = list(pyslurm.db.Jobs.load(wanted).values())
        except pyslurm.RPCError as error:
            raise ClusterError(f"can't load accounting records: {error}") from None
        names = {config.name for config in self._managed}
        return [o for r in records if r.partition in names and (o := _outcome(r)) is not None and o.end_time > since]


def _priorities() -> dict[int, tuple[int, bool]]:
    """Job id -> (site factor, whether the priority is pinned), from sprio."""
    try:
        done = subprocess.run(
            ["sprio", "-h", "-o", "%i %Y %S %A %F %J %P %Q %T"],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"can't run sprio: {error}") from None
    if done.returncode != 0:
        raise ClusterError(f"sprio: {done.stderr.strip()}")
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].isdigit():
            # A pinned job's factors are all shown as 0, though its priority isn't (man sprio).
            pinned = int(words[1]) > 1 and not any(word.strip("0.,") for word in words[2:])
            found[int(words[0])] = (int(words[2]), pinned)
    return found


def _job(record: Any, priorities: dict[int, tuple[int, bool]]) -> Job:
    gpus = {name: tres.count for name, tres in (record.gpus or {}).items()}
    site_factor, pinned = priorities.get(record.id, (0, False))
    return Job(
        job_id=record.array_id or record.id,
        user=record.user_name or str(record.user_id),
        uid=record.user_id,
        name=record.name or "",
        state=record.state,
        reason=record.state_reason or "",
        partitions=tuple((record.partition or "").split(",")),
        submit_time=record.submit_time or 0,
        account=record.account or "",
        qos=record.qos or "",
        begin_time=record.eligible_time or 0,
        start_time=record.start_time or 0,
        deadline=record.deadline or 0,
        time_limit_s=_seconds(record.time_limit),
        priority=record.priority or 0,
        nice=record.nice or 0,
        nodes=_number(record.num_nodes, 1),
        tasks=_number(record.ntasks, 1),
        cpus=_number(record.cpus, 1),
        cpus_per_task=_number(record.cpus_per_task, 1),
        memory_mb_per_node=_number(record.memory_per_node, 0),
        gpus=_request(record, gpus),
        gpus_total=gpus.get("gpu", 0),
        features="&".join(record.constraints or ()),
        required_nodes=record.required_nodes or "",
        excluded_nodes=record.excluded_nodes or "",
        reservation=record.reservation or "",
        dependency=str(record.dependencies or ""),
        comment=record.comment or "",
        submit_line=record.submit_line or "",
        is_array=record.array_id is not None,
        het_job_id=record.heterogeneous_id or 0,
        exclusive=record.resource_sharing == "NO",
        groups=_groups(record.user_id),
        site_factor=site_factor,
        pinned=pinned,
    )


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def _seconds(minutes: Any) -> int | None:
    """pyslurm's time limits: minutes, None, or the word UNLIMITED."""
    return minutes * 60 if isinstance(minutes, int) else None


def _request(record: Any, gpus: dict[str, int]) -> GpuRequest | None:
    """The GPU request as far as pyslurm tells it: GRES per node by name, a total in the requested TRES."""
    per_node = {name.removeprefix("gres/"): int(count) for name, count in (record.gres_per_node or {}).items()}
    shared = any(name.split(":")[0] in SHARED_GRES or "g." in name for name in (*per_node, *gpus))
    shared = shared or any(name in (record.gres or {}) for name in SHARED_GRES)
    typed = next((n.partition(":")[2] for n in (*per_node, *gpus) if n.startswith("gpu:")), None)
    if record.state != "PENDING":
        typed = None  # a running job's GPUs have a type even where none was asked for
    counts = [count for name, count in per_node.items() if name.split(":")[0] == "gpu"]
    if counts:
        return GpuRequest(per_node=sum(counts), type=typed, shared=shared)
    if not gpus.get("gpu") and not shared:
        return None
    if record.tres_per_task is not None:
        return GpuRequest(per_task=gpus.get("gpu", 0) // max(_number(record.ntasks, 1), 1), type=typed, shared=shared)
    return GpuRequest(per_job=gpus.get("gpu", 0), type=typed, shared=shared)


@lru_cache(maxsize=4096)
def _groups(uid: int) -> frozenset[str]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return frozenset()
    names = set()
    for gid in os.getgrouplist(user.pw_name, user.pw_gid):
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return frozenset(names)


def _gpu_count(gres: dict[str, int] | None) -> int:
    """GPUs in a node's GRES; the total stands beside its types in some of Slurm's answers."""
    gres = {name.removeprefix("gres/"): count for name, count in (gres or {}).items()}
    return gres.get("gpu", sum(count for name, count in gres.items() if name.startswith("gpu:")))


def _gpu_type(gres: dict[str, int] | None) -> str:
    names = [name.removeprefix("gres/") for name in gres or {}]
    return next((name.split(":")[1] for name in names if name.startswith("gpu:")), "")


def _node(record: Any) -> Node:
    gpus = _gpu_count(record.configured_gres)
    return Node(
        name=record.name,
        gpus=gpus,
        gpus_free=max(gpus - _gpu_count(record.allocated_gres), 0),
        cpus=record.effective_cpus or record.total_cpus or 0,
        cpus_free=record.idle_cpus or 0,
        memory_mb=record.real_memory or 0,
        memory_mb_free=record.idle_memory or 0,
        features=frozenset(record.available_features or ()),
        usable=not any(word in record.state for word in UNUSABLE_STATES),
    )


def _partition(record: Any, config: PartitionConfig, nodes: Iterable[Node], gpu_types: Iterable[str]) -> Partition:
    return Partition(
        name=record.name,
        gpu_type=config.gpu_type or next((name for name in gpu_types if name), record.name),
        nodes=tuple(nodes),
        gpu_memory_gb=config.gpu_memory_gb,
        up=record.state == "UP",
        default=bool(record.is_default),
        max_time_s=_seconds(record.max_time),
        max_nodes=record.max_nodes if isinstance(record.max_nodes, int) else None,
        allow_accounts=_names(record.allowed_accounts),
        deny_accounts=_names(record.denied_accounts) or frozenset(),
        allow_qos=_names(record.allowed_qos),
        deny_qos=_names(record.denied_qos) or frozenset(),
        allow_groups=_names(record.allowed_groups),
        root_only=bool(record.is_root_only),
        reservation_required=bool(record.requires_reservation),
    )


def _names(listed: Sequence[str] | None) -> frozenset[str] | None:
    """pyslurm says ``["ALL"]`` where a list isn't set, also for what is denied."""
    return None if not listed or list(listed) == ["ALL"] else frozenset(listed)


def _outcome(record: Any) -> Outcome | None:
    """An accounting record as an outcome; None while it runs, or where it never started or had no GPUs."""
    if not record.end_time or not record.start_time or record.state in ("PENDING", "RUNNING"):
        return None
    tres = record.allocated_tres
    gpus = {name: gpu.count for name, gpu in ((tres.gres if tres else None) or {}).items() if name.startswith("gpu")}
    total = gpus.get("gpu", sum(gpus.values()))
    if not total:
        return None
    return Outcome(
        job_id=record.id,
        submit_time=record.submit_time,
        partition=record.partition,
        gpu_type=next((name.split(":")[1] for name in gpus if ":" in name), ""),
        gpus=total,
        state=record.state.split()[0],
        start_time=record.start_time,
        end_time=record.end_time,
        elapsed_s=float(record.elapsed_time or 0),
    )
