"""Slurm's records to the words of the domain. The texts are what Slurm 26.05's commands print; the lab tests use the
real ones."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest

from slurmcast.cluster import records
from slurmcast.cluster.records import Priority
from slurmcast.config import PartitionConfig
from slurmcast.model import GpuRequest, Node

SPRIO = """\
    5       2000       0     0.0  1000.0     0.0  1000.0      0
    9       2055      55       0       0       0       0      0
    9       2055      55       0       0       0       0      0
   11       5000       0       0       0       0       0      0
   12          1       0       0       0       0       0      0
   13       1950     -50       0    1000       0    1000      0 cpu=3
"""


def test_priorities() -> None:
    assert records.priorities(SPRIO) == {
        5: Priority(0),
        9: Priority(55),
        11: Priority(0, pinned=True),
        12: Priority(0),
        13: Priority(-50),
    }


def test_requests() -> None:
    text = "9|N/A|gres/gpu:1|N/A|N/A|\n14|N/A|N/A|N/A|gres/gpu:a100=1|\n12|gres/gpu:a100:2|N/A|N/A|N/A|\nnoise\n"
    found = records.requests(text)
    assert found[14] == {
        "tres_per_job": "N/A",
        "tres_per_node": "N/A",
        "tres_per_socket": "N/A",
        "tres_per_task": "gres/gpu:a100=1",
    }
    assert set(found) == {9, 12, 14}


def test_squeue_format_names_what_requests_reads() -> None:
    expected = "JobID:|,tres-per-job:|,tres-per-node:|,tres-per-socket:|,tres-per-task:|"
    assert records.squeue_format() == expected


def test_billing_weights() -> None:
    text = "PartitionName=a100 State=UP\nPartitionName=a6000 State=UP TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2\n"
    assert records.billing_weights(text) == {"a100": (), "a6000": (("cpu", 1.0), ("mem", 0.25), ("gres/gpu", 2.0))}


def job_record(**fields: Any) -> SimpleNamespace:
    plain: dict[str, Any] = {
        "id": 5,
        "user_id": os.getuid(),
        "name": "train",
        "state": "PENDING",
        "state_reason": "Priority",
        "partition": "a100",
        "submit_time": 500,
        "account": "research",
        "qos": "normal",
        "eligible_time": 500,
        "start_time": None,
        "deadline": None,
        "time_limit": 60,
        "priority": 2000,
        "nice": 0,
        "num_nodes": 1,
        "ntasks": 1,
        "cpus": 1,
        "cpus_per_task": 1,
        "memory_per_node": None,
        "memory_per_cpu": None,
        "gpus": {"gpu": SimpleNamespace(count=1)},
        "gres_per_node": {"gres/gpu": 1},
        "constraints": None,
        "required_nodes": None,
        "excluded_nodes": None,
        "reservation": None,
        "dependencies": None,
        "comment": None,
        "submit_line": None,
        "array_id": None,
        "is_batch_job": True,
        "federation_siblings_viable": [],
        "requeue_count": 0,
        "heterogeneous_id": None,
        "resource_sharing": "OK",
    }
    return SimpleNamespace(**plain | fields)


def gpus(**counts: int) -> dict[str, SimpleNamespace]:
    return {name.replace("_", ":"): SimpleNamespace(count=count) for name, count in counts.items()}


# case: (record, tres_per_* fields from squeue, request, GPUs in all)
REQUESTS: dict[str, tuple[SimpleNamespace, dict[str, str] | None, GpuRequest | None, int]] = {
    "--gres=gpu:1": (job_record(), None, GpuRequest(per_node=1), 1),
    "--gres=gpu:a100:1": (
        job_record(gres_per_node={"gres/gpu:a100": 1}, gpus=gpus(gpu=1, gpu_a100=1)),
        None,
        GpuRequest(per_node=1, type="a100"),
        1,
    ),
    "--gpus=a100:2 without typed accounting": (
        job_record(gres_per_node={}, gpus=gpus(gpu=2)),
        {"tres_per_job": "gres/gpu:a100:2", "tres_per_node": "N/A"},
        GpuRequest(per_job=2, type="a100"),
        2,
    ),
    "--gpus-per-task=1 -n2": (
        job_record(gres_per_node={}, gpus=gpus(gpu=2), ntasks=2),
        {"tres_per_task": "gres/gpu=1"},
        GpuRequest(per_task=1),
        2,
    ),
    "shards": (job_record(gres_per_node={"gres/shard": 2}, gpus={}), None, GpuRequest(shared=True), 1),
    "a site without gres/gpu in AccountingStorageTRES": (
        job_record(gpus={}, gres_per_node={"gres/gpu": 2}, num_nodes=2),
        None,
        GpuRequest(per_node=2),
        4,
    ),
    "no GPUs": (job_record(gpus={}, gres_per_node={}), None, None, 0),
    "running, request no longer shown": (
        job_record(state="RUNNING", gres_per_node={}, gpus=gpus(gpu=2, gpu_a100=2)),
        None,
        GpuRequest(per_job=2),
        2,
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_gpu_request(case: str) -> None:
    record, fields, request, total = REQUESTS[case]
    job = records.job(record, Priority(), fields)
    assert (job.gpus, job.gpus_total) == (request, total)


def test_only_hidden_requests_are_asked_for() -> None:
    assert not records.gpus_outside_gres(job_record())
    assert not records.gpus_outside_gres(job_record(gpus={}, gres_per_node={}))
    assert records.gpus_outside_gres(job_record(gres_per_node={}))
    assert records.gpus_outside_gres(job_record(gres_per_node={"gres/shard": 1}))


def test_job_fields() -> None:
    record = job_record(
        partition="a100,a6000",
        constraints=["a100|a6000"],
        memory_per_cpu=1000,
        cpus=6,
        num_nodes=2,
        time_limit="UNLIMITED",
        array_id=5,
        requeue_count=2,
        resource_sharing="NO",
        federation_siblings_viable=["east"],
        is_batch_job=False,
    )
    job = records.job(record, Priority(40, pinned=True))
    assert job.partitions == ("a100", "a6000")
    assert job.features == "a100|a6000"
    assert job.memory_mb_per_node == 3000
    assert job.time_limit_s is None
    assert (job.is_array, job.array_job_id, job.restarts, job.exclusive) == (True, 5, 2, True)
    assert (job.federated, job.batch, job.site_factor, job.pinned) == (True, False, 40, True)
    assert (job.start_time, job.deadline, job.reservation, job.dependency) == (0, 0, "", "")
    me = pwd.getpwuid(os.getuid())
    assert job.user == me.pw_name
    assert job.groups


def test_unknown_users_keep_their_number() -> None:
    job = records.job(job_record(user_id=4_000_000), Priority())
    assert (job.user, job.groups) == ("4000000", frozenset())


def node_record(state: str = "MIXED", **fields: Any) -> SimpleNamespace:
    plain: dict[str, Any] = {
        "name": "a100-1",
        "state": state,
        "configured_gres": {"gpu:a100": 4},
        "allocated_gres": {"gpu": 3, "gpu:a100": 3},
        "effective_cpus": 30,
        "total_cpus": 32,
        "idle_cpus": 20,
        "real_memory": 64000,
        "idle_memory": 1000,
        "available_features": ["a100"],
    }
    return SimpleNamespace(**plain | fields)


def test_node() -> None:
    assert records.node(node_record()) == Node("a100-1", 4, 1, 30, 20, 64000, 1000, frozenset({"a100"}))
    untyped = records.node(node_record(configured_gres={"gpu": 2}, allocated_gres=None))
    assert (untyped.gpus, untyped.gpus_free) == (2, 2)
    assert records.node(node_record(configured_gres=None)).gpus == 0
    assert records.gpu_type(node_record()) == "a100"
    assert records.gpu_type(node_record(configured_gres={"gpu": 2})) == ""


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True),
        ("MIXED", True),
        ("MIXED+PLANNED", True),
        ("IDLE+DRAIN", False),
        ("DOWN", False),
        ("IDLE+RESERVED", False),
        ("IDLE+MAINTENANCE", False),
        ("DOWN+NOT_RESPONDING", False),
        ("IDLE+NOT_RESPONDING", False),
        ("IDLE+POWERED_DOWN", True),
    ],
)
def test_usable_nodes(state: str, usable: bool) -> None:
    assert records.node(node_record(state)).usable is usable


def partition_record(**fields: Any) -> SimpleNamespace:
    everyone = {f"{kind}_{what}": ["ALL"] for kind in ("allowed", "denied") for what in ("accounts", "qos", "groups")}
    plain = {"name": "a100", "state": "UP", "is_default": True, "max_time": 60, "max_nodes": "UNLIMITED"}
    flags = {"is_root_only": False, "requires_reservation": False}
    return SimpleNamespace(**{**everyone, **plain, **flags, **fields})


def test_partition() -> None:
    config = PartitionConfig("a100", gpu_memory_gb=40.0)
    part = records.partition(partition_record(), config, (), ("", "a100"), (("cpu", 1.0),))
    assert (part.gpu_type, part.gpu_memory_gb, part.up, part.default) == ("a100", 40.0, True, True)
    assert (part.max_time_s, part.max_nodes, part.billing_weights) == (3600, None, (("cpu", 1.0),))
    assert (part.allow_accounts, part.deny_accounts, part.allow_qos, part.deny_qos) == (None, set(), None, set())
    strict = partition_record(
        state="DRAIN",
        max_nodes=2,
        max_time="UNLIMITED",
        allowed_accounts=["a", "b"],
        denied_qos=["x"],
        is_root_only=True,
    )
    part = records.partition(strict, PartitionConfig("a100", gpu_type="A100"), (), ())
    assert (part.gpu_type, part.up, part.max_nodes, part.max_time_s, part.root_only) == ("A100", False, 2, None, True)
    assert (part.allow_accounts, part.deny_qos) == ({"a", "b"}, {"x"})
