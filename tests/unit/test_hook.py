"""The hook under plain Lua interpreters: which submissions it forwards, and which of them get the grace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmcast.daemon import spool as daemon_spool
from tests.unit.hook_harness import BARE, BOUND, FREE, GPU, INFINITE, NOTHING, NOW, SCRIPT, Hook, fate


def test_every_field_arrives(hook: Hook) -> None:
    job = {
        **GPU,
        "account": "research",
        "argv": ["/home/alice/train.sh", "--epochs", "10", "a b", ""],
        "array_inx": "1-4%2",
        "comment": "hello",
        "cpus_per_task": 2,
        "environment": {"EPOCHS": "7", "MODEL": "a=b", "BATCH_SIZE": "", "SECRET_TOKEN": "x", "HOME": "/home/alice"},
        "features": "a100&ib",
        "max_nodes": 2,
        "mem_per_tres": "gres/gpu:100",
        "min_mem_per_cpu": 100,
        "min_nodes": 1,
        "name": "caf\udce9",
        "ntasks_per_gpu": 1,
        "ntasks_per_node": 3,
        "num_tasks": 6,
        "partition": "a100,a6000",
        "qos": "normal",
        "time_limit": 65534,
        "tres_per_task": "cpu=2",
    }
    assert hook(job).fields == {
        "submit_time": b"1764425000",
        "uid": b"1000",
        "name": b"caf\xe9",
        "partition": b"a100,a6000",
        "begin_time": b"1764425008",
        "work_dir": b"/home/alice",
        "array": b"1-4%2",
        "argv": b"/home/alice/train.sh\0--epochs\x0010\0a b\0\0",
        "environment": b"EPOCHS=7\0BATCH_SIZE=\0MODEL=a=b\0",
        "request.tres_per_node": b"gres/gpu:1",
        "request.tres_per_task": b"cpu=2",
        "request.ntasks_per_gpu": b"1",
        "request.min_nodes": b"1",
        "request.max_nodes": b"2",
        "request.num_tasks": b"6",
        "request.ntasks_per_node": b"3",
        "request.cpus_per_task": b"2",
        "request.min_cpus": b"1",
        "request.min_mem_per_cpu": b"100",
        "request.mem_per_tres": b"gres/gpu:100",
        "request.time_limit": b"65534",
        "request.features": b"a100&ib",
        "request.account": b"research",
        "request.qos": b"normal",
        "request.comment": b"hello",
        "script_size": b"%d" % len(SCRIPT),
        "script": SCRIPT,
    }


def test_what_the_user_did_not_give_is_missing(hook: Hook) -> None:
    job = {**GPU, "argv": None, "argc": 0, "environment": None, "partition": ""}
    fields = hook(job).fields
    assert {name for name in fields if name.startswith("request.")} == {"request.tres_per_node", "request.min_cpus"}
    assert "partition" not in fields
    assert fields["argv"] == fields["environment"] == fields["array"] == b""


def test_unlimited_is_not_missing(hook: Hook) -> None:
    assert hook({**GPU, "time_limit": INFINITE}).fields["request.time_limit"] == b"4294967295"


def test_the_owner_is_the_job_s_user(hook: Hook) -> None:
    """Under root's ``sbatch --uid=alice`` the submitter is root and the job is alice's."""
    assert hook({**GPU, "user_id": 1000}, uid=0).fields["uid"] == b"1000"


def test_the_daemon_reads_it(hook: Hook) -> None:
    (file,) = hook({**GPU, "argv": ["/x/t.sh", "7"], "comment": "hm"}).files
    submission = daemon_spool.parse(file.read_bytes())
    assert (submission.uid, submission.submit_time, submission.begin_time) == (1000, NOW, NOW + 8)
    assert (submission.argv, submission.script, submission.complete) == (("/x/t.sh", "7"), SCRIPT, True)
    assert submission.request == {"tres_per_node": "gres/gpu:1", "min_cpus": "1", "comment": "hm"}


@pytest.mark.parametrize(
    ("request_fields", "expected"),
    [
        ({"tres_per_node": "gres/gpu:1"}, FREE),
        ({"tres_per_node": "gres:gpu:1"}, FREE),
        ({"tres_per_node": "gpu:1"}, FREE),
        ({"tres_per_node": "gres/gpu"}, FREE),
        ({"tres_per_node": "gres/gpu=2"}, FREE),
        ({"tres_per_node": "license/x:1,gres/gpu:2"}, FREE),
        ({"tres_per_job": "gres/gpu:2"}, FREE),
        ({"tres_per_socket": "gres/gpu:1"}, FREE),
        ({"tres_per_task": "cpu:2,gres/gpu:1"}, FREE),
        ({"tres_per_task": "cpu=2,gres/gpu=1"}, FREE),
        ({"num_tasks": 2, "ntasks_per_gpu": 1}, FREE),
        ({"tres_per_node": "gres/gpu:a100:1"}, BOUND),
        ({"tres_per_node": "gres:gpu:a100:1"}, BOUND),
        ({"tres_per_node": "gres/gpu:a100"}, BOUND),
        ({"tres_per_node": "gres/gpu:4090:1"}, BOUND),
        ({"tres_per_task": "gres/gpu:a100=1"}, BOUND),
        ({"tres_per_job": "gres/gpu:1,gres/gpu:a100:1"}, BOUND),
        ({"tres_per_node": "gres/shard:2"}, BOUND),
        ({"tres_per_node": "gres/mps:50"}, BOUND),
        ({"tres_per_node": "gres/gpu:1g.5gb:1"}, BOUND),
        ({"tres_per_node": "gres/gpu:a100_3g.20gb:1"}, BOUND),
        ({}, NOTHING),
        ({"tres_per_node": "gres/gpu:0"}, NOTHING),
        ({"tres_per_node": ""}, NOTHING),
        ({"tres_per_node": "gres/none"}, NOTHING),
        ({"tres_per_node": "gres/gpuless:1,gres/nogpu:1,gres/fpga:1"}, NOTHING),
        ({"tres_per_task": "cpu=4"}, NOTHING),
    ],
)
def test_gpu_requests(hook: Hook, request_fields: dict[str, Any], expected: str) -> None:
    assert fate(hook({**BARE, **request_fields})) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"comment": "slurmcast:off"}, NOTHING),
        ({"comment": "project x, slurmcast:off; y"}, NOTHING),
        ({"comment": "slurmcast:offline"}, FREE),
        ({"comment": "not-slurmcast:off"}, FREE),
        ({"partition": "a100", "comment": "slurmcast:move"}, FREE),
        ({"partition": "a100", "comment": "slurmcast:move slurmcast:off"}, NOTHING),
        ({"tres_per_node": "gres/gpu:a100:1", "comment": "slurmcast:move"}, BOUND),
        ({"array_inx": "1-9"}, FREE),
        ({"partition": "a100,a6000"}, FREE),
        ({"partition": "a100"}, BOUND),
        ({"begin_time": NOW + 3600}, BOUND),
        ({"begin_time": 7258118400}, BOUND),  # the year 2200: beyond 32 bits, and still the user's own wish
        ({"dependency": "afterok:1"}, BOUND),
        ({"reservation": "course"}, BOUND),
        ({"req_nodes": "a100-1"}, BOUND),
        ({"priority": 0}, BOUND),  # sbatch --hold
        ({"priority": 5000}, BOUND),
        ({"het_job_offset": 0}, BOUND),
    ],
)
def test_kinds_of_jobs(hook: Hook, fields: dict[str, Any], expected: str) -> None:
    result = hook({**GPU, **fields})
    assert fate(result) == expected
    if expected != FREE:
        assert result.begin_time == fields.get("begin_time", 0)


@pytest.mark.parametrize("script", [None, b""])
def test_a_job_without_script_is_left_alone(hook: Hook, script: bytes | None) -> None:
    assert fate(hook(script=script)) == NOTHING


def test_a_deadline_in_the_script_gets_no_grace(hook: Hook) -> None:
    assert fate(hook(script=b"#!/bin/bash\n#SBATCH --deadline=now+1hour\n")) == BOUND


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        ({"qos": "debug"}, {"no_grace_qos": ("debug",)}, BOUND),
        ({"qos": "normal"}, {"no_grace_qos": ("debug",)}, FREE),
        ({"default_qos": "debug"}, {"no_grace_qos": ("debug",)}, BOUND),
        ({"qos": "normal", "default_qos": "debug"}, {"no_grace_qos": ("debug",)}, FREE),
        ({"partition": "a6000,a100"}, {"no_grace_partitions": ("x", "a100")}, BOUND),
        ({"partition": "a6000,b"}, {"no_grace_partitions": ("a100",)}, FREE),
        ({}, {"no_grace_partitions": ("a100",)}, BOUND),  # the default partition
        ({}, {"no_grace_partitions": ("a6000",)}, FREE),
        ({"partition": "a1,b"}, {"no_grace_partitions": ("a.",)}, FREE),  # names, not patterns
    ],
)
def test_settings_against_the_grace(hook: Hook, fields: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    assert fate(hook({**GPU, **fields}, options=options)) == expected


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (f"on {NOW} 8\n", FREE),
        (f"on {NOW + 86400} 8\n", FREE),
        (f"on {NOW - 1} 8\n", BOUND),
        (f"on {NOW - 3600} 8\n", BOUND),
        (f"on {NOW - 3601} 8\n", NOTHING),
        (f"on {NOW + 86401} 8\n", NOTHING),
        (f"on {NOW + 60} 0\n", BOUND),
        (f"shadow {NOW + 60} 8\n", BOUND),
        (f"shadow {NOW - 3601} 8\n", NOTHING),
        (f"off {NOW + 60} 8\n", NOTHING),
        (f"on {NOW + 60} 8", NOTHING),  # cut
        (f"on {NOW + 60}\n", NOTHING),
        (f"on {NOW + 60} -8\n", NOTHING),
        (f"on -{NOW + 60} 8\n", NOTHING),
        (f"on {'9' * 40} 8\n", NOTHING),
        (f"ON {NOW + 60} 8\n", NOTHING),
        ("", NOTHING),
        ("\n", NOTHING),
        (b"\x00\xff\x80" * 30, NOTHING),
        (b"on " * 1_000_000, NOTHING),
    ],
)
def test_leases(hook: Hook, lease: str | bytes, expected: str) -> None:
    hook.set_lease(lease)
    assert fate(hook()) == expected


def test_the_grace_is_bounded(hook: Hook) -> None:
    hook.set_lease(f"on {NOW + 60} 99999999\n")
    assert hook().begin_time == NOW + 60
    assert hook(options={"max_grace": 5}).begin_time == NOW + 5


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.symlink_to("lease")])
def test_no_lease_to_read(hook: Hook, make: Callable[[Path], None]) -> None:
    hook.lease.unlink()
    make(hook.lease)
    assert fate(hook()) == NOTHING
