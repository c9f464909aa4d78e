"""Slurm's own fields and the script's directives: what is asked for, and who wins."""

from __future__ import annotations

import pytest

from slurmcast.model import GpuRequest
from slurmcast.script import options, resources

NO_VAL, NO_VAL16, INFINITE = "4294967294", "65534", "4294967295"

# (request, options, expected numbers beside nodes and tasks of 1)
CASES = [
    ({}, {}, {}),
    ({}, {"nodes": "2-4", "ntasks": "8"}, {"nodes": 2, "tasks": 8}),
    ({}, {"nodes": "2", "ntasks-per-node": "4"}, {"nodes": 2, "tasks": 8, "ntasks_per_node": 4}),
    ({}, {"ntasks": "8", "ntasks-per-node": "4"}, {"nodes": 2, "tasks": 8, "ntasks_per_node": 4}),
    ({}, {"nodes": "1-4", "ntasks": "4", "ntasks-per-node": "2"}, {"nodes": 2, "tasks": 4, "ntasks_per_node": 2}),
    ({}, {"nodes": "1", "ntasks": "4", "ntasks-per-node": "2"}, {"tasks": 4, "ntasks_per_node": 2}),
    ({"min_nodes": "1", "max_nodes": "1", "num_tasks": "4", "ntasks_per_node": "2"}, {},
     {"tasks": 4, "ntasks_per_node": 2}),
    ({}, {"nodes": "3"}, {"nodes": 3, "tasks": 3}),
    ({"min_nodes": "4", "num_tasks": "4"}, {"nodes": "2", "ntasks": "2"}, {"nodes": 4, "tasks": 4}),
    ({"min_nodes": NO_VAL, "ntasks_per_node": NO_VAL16, "cpus_per_task": "8.0"}, {}, {"cpus_per_task": 8}),
    ({"time_limit": "90"}, {"time": "10"}, {"time_limit_s": 5400}),
    ({"time_limit": NO_VAL}, {"time": "10"}, {"time_limit_s": 600}),
    ({"time_limit": INFINITE}, {"time": "10"}, {}),
    ({"pn_min_memory": "4096"}, {"mem": "1G"}, {"memory_mb": 4096}),
    ({"pn_min_memory": str((1 << 63) + 2048)}, {}, {"memory_per_cpu_mb": 2048}),
    ({"pn_min_memory": "9.2233720368548e+18"}, {}, {}),
    ({"min_mem_per_cpu": "2000"}, {}, {"memory_per_cpu_mb": 2000}),
    ({}, {"mem": "8G", "mem-per-cpu": "1G"}, {"memory_mb": 8192, "memory_per_cpu_mb": 1024}),
    ({}, {"array": "0-9%4"}, {"array_size": 10}),
    ({"num_tasks": "x", "min_nodes": "-1", "time_limit": ""}, {}, {}),
    ({"tres_per_node": "gres/gpu:2"}, {"gres": "gpu:8", "nodes": "2"}, {"nodes": 2, "tasks": 2, "gpus": 4}),
    ({"tres_per_task": "gres/gpu=1"}, {"nodes": "2", "ntasks-per-node": "2"},
     {"nodes": 2, "tasks": 4, "ntasks_per_node": 2, "gpus": 4}),
    ({}, {"gpus": "a100:3"}, {"gpus": 3}),
    ({"tres_per_node": "none"}, {"gpus": "a100:3"}, {}),  # sbatch --gres=none over the script's wish
    ({"num_tasks": "4", "ntasks_per_gpu": "2"}, {}, {"tasks": 4, "gpus": 2}),
    ({}, {"gpus-per-socket": "1", "sockets-per-node": "2"}, {"gpus": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("request_fields", "opts", "expected"), CASES)
def test_puts_request_before_options(
    request_fields: dict[str, str], opts: dict[str, str], expected: dict[str, float]
) -> None:
    found = resources.read(request_fields, opts)
    assert found.numbers == {"nodes": 1, "tasks": 1, **expected}
    assert found.gpus_total == expected.get("gpus", 0)
    assert found.time_limit_s == expected.get("time_limit_s")


def test_the_request_s_gpus_replace_the_script_s() -> None:
    found = resources.read({"tres_per_job": "gres/gpu:a100:1"}, {"gres": "gpu:a6000:2"})
    assert found.gpus == GpuRequest(per_job=1, type="a100")


@pytest.mark.parametrize(
    ("text", "size"),
    [("5", 1), ("0-9", 10), ("0-15:4", 4), ("1,3,7-9", 5), ("[1-4]", 4), ("1-1000%50", 1000), ("", None), ("a", None)],
)
def test_array_sizes(text: str, size: int | None) -> None:
    assert options.array_size(text) == size
