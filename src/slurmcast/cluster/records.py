"""Slurm's records, as pyslurm and Slurm's commands give them, to the words of the domain. No I/O but the user database.

Tried with pyslurm 25.11.2 against Slurm 26.05. The records come in as ``Any``: pyslurm has no types, and this module
must be importable where pyslurm isn't.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slurmcast.config import PartitionConfig
from slurmcast.model import GpuRequest, Job, Node, Partition
from slurmcast.script.gres import parse_gpu_request, total_gpus

UNUSABLE_STATES = frozenset(
    {
        "DOWN",
        "ERROR",
        "UNKNOWN",
        "FUTURE",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "FAIL",
        "FAILING",
        "MAINT",
        "MAINTENANCE",
        "RESERVED",
        "NOT_RESPONDING",
        "INVALID_REG",
        "BLOCKED",
        "POWERING_DOWN",
    }
)
"""Words of a node's state that keep new jobs away; a node that is powered down would be woken for one."""
REQUEST_FIELDS = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")


@dataclass(frozen=True, slots=True)
class Priority:
    """What sprio tells of a job: its site factor, and whether its priority was set by hand."""

    site_factor: int = 0
    pinned: bool = False


SPRIO_FORMAT = "%i %Y %S %A %F %J %P %Q %T"


def priorities(sprio: str) -> dict[int, Priority]:
    """Job id -> priority, from ``sprio -h -o SPRIO_FORMAT``. A job whose priority was set by hand shows no factors."""
    found = {}
    for line in sprio.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].isdigit():
            pinned = int(words[1]) > 1 and not any(word.strip("0.,") for word in words[2:])
            found[int(words[0])] = Priority(int(words[2]), pinned)
    return found


def squeue_format() -> str:
    """For ``squeue -O``: the job id and the GPU requests as Slurm keeps them, closed by ``|``."""
    return ",".join(f"{name}:|" for name in ("JobID", *(field.replace("_", "-") for field in REQUEST_FIELDS)))


def requests(squeue: str) -> dict[int, dict[str, str]]:
    """Job id -> the ``tres_per_*`` fields, from ``squeue -h -O`` with :func:`squeue_format`."""
    found = {}
    for line in squeue.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) > len(REQUEST_FIELDS) and words[0].isdigit():
            found[int(words[0])] = dict(zip(REQUEST_FIELDS, words[1:], strict=False))
    return found


def billing_weights(scontrol: str) -> dict[str, tuple[tuple[str, float], ...]]:
    """Partition -> TRESBillingWeights (units: CPU, GB of memory, GPU), from ``scontrol show partition --oneliner``."""
    found = {}
    for line in scontrol.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        weights = (item.split("=") for item in fields.get("TRESBillingWeights", "").split(",") if "=" in item)
        found[fields.get("PartitionName", "")] = tuple((name.lower(), _weight(value)) for name, value in weights)
    return found


def _weight(text: str) -> float:
    """``0.25G`` is a weight per GB, a bare number of ``mem`` one per MB; only GB is in use (man slurm.conf)."""
    return float(text.rstrip("KMGTPkmgtp") or 0)


def gpus_outside_gres(record: Any) -> bool:
    """Whether the job asks for GPUs in a way that pyslurm doesn't show (--gpus, per task, per socket)."""
    return bool(_counts(record.gpus)) and not any("gpu" in name for name in record.gres_per_node or {})


def job(record: Any, priority: Priority, request_fields: Mapping[str, str] | None = None) -> Job:
    """A job record. ``request_fields``: the ``tres_per_*`` fields where pyslurm doesn't show the request."""
    counts = _counts(record.gpus)
    fields = request_fields or _gres_fields(record.gres_per_node)
    request = parse_gpu_request(fields) or _running_request(record, counts)
    nodes, tasks = _number(record.num_nodes, 1), _number(record.ntasks, 1)
    cpus = _number(record.cpus, 1)
    return Job(
        job_id=record.id,
        user=_user(record.user_id),
        uid=record.user_id,
        name=_text(record, "name"),
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
        nodes=nodes,
        tasks=tasks,
        cpus=cpus,
        cpus_per_task=_number(record.cpus_per_task, 1),
        memory_mb_per_node=_number(record.memory_per_node, 0) or _number(record.memory_per_cpu, 0) * -(-cpus // nodes),
        gpus=request,
        gpus_total=counts.get("gpu", 0) or total_gpus(request, nodes, tasks),
        features="&".join(record.constraints or ()),
        required_nodes=record.required_nodes or "",
        excluded_nodes=record.excluded_nodes or "",
        reservation=record.reservation or "",
        dependency=str(record.dependencies or ""),
        comment=_text(record, "comment"),
        submit_line=_text(record, "submit_line"),
        is_array=record.array_id is not None,
        array_job_id=record.array_id or 0,
        batch=bool(record.is_batch_job),
        federated=bool(record.federation_siblings_viable),
        restarts=_number(record.requeue_count, 0),
        het_job_id=record.heterogeneous_id or 0,
        exclusive=record.resource_sharing == "NO",
        groups=_groups(record.user_id),
        site_factor=priority.site_factor,
        pinned=priority.pinned,
    )


def _text(record: Any, field: str) -> str:
    """A field that users write, empty where it is no UTF-8: pyslurm decodes strictly, when a field is read."""
    try:
        return getattr(record, field) or ""
    except UnicodeDecodeError:
        return ""


def node(record: Any) -> Node:
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
        usable=UNUSABLE_STATES.isdisjoint(record.state.split("+")),
    )


def gpu_type(record: Any) -> str:
    """The type of a node's GPUs as gres.conf has it, empty where it has none."""
    return next((name.split(":")[1] for name in record.configured_gres or {} if name.startswith("gpu:")), "")


def partition(
    record: Any,
    config: PartitionConfig,
    nodes: Iterable[Node],
    gpu_types: Iterable[str],
    weights: tuple[tuple[str, float], ...] = (),
) -> Partition:
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
        billing_weights=weights,
    )


def _counts(gres: Mapping[str, Any] | None) -> dict[str, int]:
    """GPUs in pyslurm's mapping of TRES objects: ``gpu`` and, where the site accounts for types, ``gpu:TYPE``."""
    return {name: int(tres.count) for name, tres in (gres or {}).items() if name.split(":")[0] == "gpu"}


def _gres_fields(gres: Mapping[str, int] | None) -> dict[str, str]:
    return {"tres_per_node": ",".join(f"{name}:{count}" for name, count in (gres or {}).items())}


def _running_request(record: Any, counts: Mapping[str, int]) -> GpuRequest | None:
    return GpuRequest(per_job=counts["gpu"]) if counts.get("gpu") and record.state != "PENDING" else None


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def _seconds(minutes: Any) -> int | None:
    """pyslurm's time limits: minutes, None, or the word UNLIMITED."""
    return minutes * 60 if isinstance(minutes, int) else None


def _names(listed: Sequence[str] | None) -> frozenset[str] | None:
    """pyslurm says ``["ALL"]`` where a list isn't set, also for what is denied."""
    return None if not listed or list(listed) == ["ALL"] else frozenset(listed)


def _gpu_count(gres: Mapping[str, int] | None) -> int:
    """GPUs in a node's GRES; the total stands beside its types in some of Slurm's answers."""
    gres = gres or {}
    return gres.get("gpu", sum(count for name, count in gres.items() if name.startswith("gpu:")))


@lru_cache(maxsize=4096)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


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


def forget_users() -> None:
    """Ask the user database anew from now on: group memberships change."""
    _user.cache_clear()
    _groups.cache_clear()
