"""GPU requests in every release's spelling, and how many GPUs they come to."""

from __future__ import annotations

import pytest

from slurmcast.model import GpuRequest
from slurmcast.script.gres import option_fields, parse_gpu_request, total_gpus

# (tres_per_node, per_node, type, shared)
PER_NODE = [
    ("gpu", 1, None, False),
    ("gpu:2", 2, None, False),
    ("gpu=2", 2, None, False),
    ("gres:gpu:1", 1, None, False),  # 22.05
    ("gres/gpu:1", 1, None, False),  # 24.11
    ("gres/gpu=3", 3, None, False),
    ("gres/gpu", 1, None, False),
    ("gpu:a100", 1, "a100", False),
    ("gpu:v100:4", 4, "v100", False),
    ("gres/gpu:a100:2", 2, "a100", False),
    ("gres/gpu:a100=2", 2, "a100", False),
    ("gres:gpu:a100:2", 2, "a100", False),
    ("gres/gpu:type=1", 1, "type", False),
    ("gpu:3090", 3090, None, False),  # Slurm reads a number as a count
    ("gpu:3090:1", 1, "3090", False),
    ("gpu:rtx_a6000:2", 2, "rtx_a6000", False),
    ("gpu:nvidia-l40s:2", 2, "nvidia-l40s", False),
    ("gpu:1k", 1024, None, False),
    ("gpu:a100:2(S:0-1)", 2, "a100", False),
    ("gpu:2(IDX:0,1)", 2, None, False),
    ("gres/gpu:a100:1,gres/gpu:a6000:2", 3, "a100,a6000", False),
    ("gpu:a100:2,shard:1", 2, "a100", True),
    ("gres/gpu:a100:2,gres/shard:1", 2, "a100", True),
    ("gpu:1g.10gb:1", 1, "1g.10gb", True),
    ("gpu:1g.10gb", 1, "1g.10gb", True),
    ("gres/gpu:a100_1g.5gb:2", 2, "a100_1g.5gb", True),
    ("gpu:nvidia_a100_3g.20gb:1", 1, "nvidia_a100_3g.20gb", True),
    ("shard:2", None, None, True),
    ("mps:50", None, None, True),
    ("gres/mps=50", None, None, True),
    ("license/x:1,gpu:1", 1, None, False),
    (" gpu:1 , gres/", 1, None, False),
    ("gpu:99999999999999999999", 1 << 20, None, False),
]


@pytest.mark.parametrize(("text", "per_node", "kind", "shared"), PER_NODE)
def test_reads_every_spelling(text: str, per_node: int | None, kind: str | None, shared: bool) -> None:
    assert parse_gpu_request({"tres_per_node": text}) == GpuRequest(per_node=per_node, type=kind, shared=shared)


@pytest.mark.parametrize("text", ["", "none", "gpu:0", "gpu:a100:0", "nic:2", "gpus:2", "gpu:", "(", ":,=/"])
def test_no_gpu_is_none(text: str) -> None:
    assert parse_gpu_request({"tres_per_node": text}) is None


# (fields, nodes, tasks, sockets per node, GPUs of the job as ReqTRES of Slurm 26.05 has them)
TOTALS = [
    ({"tres_per_node": "gres/gpu:2"}, 2, 2, 1, 4),
    ({"tres_per_job": "gres/gpu:2"}, 1, 1, 1, 2),
    ({"tres_per_job": "gres/gpu:4", "tres_per_node": "gres/gpu:2"}, 2, 2, 1, 4),
    ({"tres_per_job": "gres/gpu:a100:1,gres/gpu:a6000:1"}, 1, 1, 1, 2),
    ({"tres_per_task": "gres/gpu=1"}, 1, 2, 1, 2),
    ({"tres_per_task": "cpu=2,gres/gpu:a100=1"}, 1, 2, 1, 2),
    ({"tres_per_task": "cpu=8"}, 1, 2, 1, 0),
    ({"tres_per_socket": "gres/gpu:1"}, 1, 1, 1, 1),
    ({"tres_per_socket": "gres/gpu:1"}, 2, 2, 2, 4),
    ({"tres_per_job": "gres/gpu:4", "tres_per_task": "gres/gpu=1"}, 1, 4, 1, 4),
    ({"tres_per_node": "gres/gpu:2", "tres_per_task": "gres/gpu=1"}, 1, 4, 1, 4),
    ({"tres_per_node": "shard:2"}, 1, 1, 1, 1),
    ({}, 3, 3, 1, 0),
]


@pytest.mark.parametrize(("fields", "nodes", "tasks", "sockets", "expected"), TOTALS)
def test_counts_the_gpus_of_the_job(
    fields: dict[str, str], nodes: int, tasks: int, sockets: int, expected: int
) -> None:
    assert total_gpus(parse_gpu_request(fields), nodes, tasks, sockets) == expected


OPTIONS = [
    ({"gres": "gpu:a100:2"}, {"tres_per_node": "gpu:a100:2"}),
    ({"gpus": "a100:1,a6000:1"}, {"tres_per_job": "gpu:a100:1,gpu:a6000:1"}),
    ({"gpus-per-node": "2", "gres": "shard:1"}, {"tres_per_node": "gpu:2,shard:1"}),
    ({"gpus-per-task": "1", "tres-per-task": "cpu=3"}, {"tres_per_task": "gpu:1,cpu=3"}),
    ({"gpus-per-socket": "2"}, {"tres_per_socket": "gpu:2"}),
    ({"ntasks": "4", "ntasks-per-gpu": "2"}, {"tres_per_job": "gpu:2"}),
    ({"ntasks": "4"}, {}),
]


@pytest.mark.parametrize(("given", "fields"), OPTIONS)
def test_options_become_fields(given: dict[str, str], fields: dict[str, str]) -> None:
    assert option_fields(given) == fields
