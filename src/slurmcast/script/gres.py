"""GPU requests as Slurm's job records and options spell them (man sbatch: --gres, --gpus, --tres-per-task)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slurmcast.model import GpuRequest

_ENTRY = re.compile(
    r"(?:gres[:/])?(?P<name>[A-Za-z]\w*)"
    r"(?::(?P<type>(?!\d+[kmgKMG]?(?:$|[(]))[^:=()]+))?"
    r"(?:[:=](?P<count>\d+)(?P<unit>[kmgKMG]?))?"
    r"(?:\(.*\))?"
)
_MIG = re.compile(r"\d+g\.\d+gb")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST = 1 << 20
"""No job has more GPUs; a larger count is a slip of the pen and is taken as this, so that sums stay sane."""

FIELDS = {
    "tres_per_job": "per_job",
    "tres_per_node": "per_node",
    "tres_per_task": "per_task",
    "tres_per_socket": "per_socket",
}


def parse_gpu_request(fields: Mapping[str, str]) -> GpuRequest | None:
    """The GPU request in Slurm's own fields ``tres_per_job``, ``_node``, ``_task`` and ``_socket``.

    Every release's spelling is read: ``gpu:2``, ``gres:gpu:2`` (22.05), ``gres/gpu:a100:2``, ``gres/gpu:a100=2``, a
    bare ``gpu`` (one), ``(S:0-1)`` behind it. Counts of several types are added and their names joined by a comma in
    ``type``. MIG slices, shards and MPS mark the request as ``shared``; a shard or MPS count is no count of GPUs and is
    left out.
    None where no field asks for a GPU; other fields and other resources are ignored. Never raises.
    """
    counts: dict[str, int] = {}
    types: dict[str, None] = {}
    shared = False
    for field, attribute in FIELDS.items():
        for name, kind, count in _entries(fields.get(field, "")):
            if count == 0:
                continue
            if name in ("shard", "mps"):
                shared = True
            elif name == "gpu":
                counts[attribute] = min(counts.get(attribute, 0) + count, _MOST)
                if kind:
                    types[kind] = None
                    shared = shared or bool(_MIG.search(kind))
    if not counts and not shared:
        return None
    return GpuRequest(**counts, type=",".join(types) or None, shared=shared)


def total_gpus(request: GpuRequest | None, nodes: int = 1, tasks: int = 1, sockets_per_node: int = 1) -> int:
    """a_ij: the GPUs that the whole job occupies; 0 where it asks for none.

    ``nodes`` and ``tasks`` are those of the job (its least number of nodes where it gave a range). A job that only has
    a share of a GPU counts as one GPU a node, since that GPU is not free for others.
    """
    if request is None:
        return 0
    nodes, tasks = max(nodes, 1), max(tasks, 1)
    if request.per_job is not None:
        return request.per_job
    if request.per_task is not None:
        return request.per_task * tasks
    if request.per_node is not None:
        return request.per_node * nodes
    if request.per_socket is not None:
        return request.per_socket * nodes * max(sockets_per_node, 1)
    return nodes


def option_fields(options: Mapping[str, str]) -> dict[str, str]:
    """sbatch's GPU options (long names) as the ``tres_per_*`` fields that Slurm makes of them.

    ``--gpus a100:2`` becomes ``gpu:a100:2``. Where only ``--ntasks`` and ``--ntasks-per-gpu`` are given, the number of
    GPUs follows from them (Slurm's record has it in the requested TRES alone).
    """
    fields = {
        "tres_per_job": _prefixed(options.get("gpus", "")),
        "tres_per_node": _joined(_prefixed(options.get("gpus-per-node", "")), options.get("gres", "")),
        "tres_per_task": _joined(_prefixed(options.get("gpus-per-task", "")), options.get("tres-per-task", "")),
        "tres_per_socket": _prefixed(options.get("gpus-per-socket", "")),
    }
    tasks, tasks_per_gpu = options.get("ntasks", ""), options.get("ntasks-per-gpu", "")
    if not any(fields.values()) and _small(tasks) and _small(tasks_per_gpu):
        fields["tres_per_job"] = f"gpu:{-(-int(tasks) // int(tasks_per_gpu))}"
    return {name: value for name, value in fields.items() if value}


def _prefixed(value: str) -> str:
    return ",".join(f"gpu:{part}" for part in value.split(",") if part)


def _joined(*values: str) -> str:
    return ",".join(value for value in values if value)


def _small(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0


def _entries(text: str) -> Iterator[tuple[str, str | None, int]]:
    """Each ``(name, type, count)`` in a list of resources; what is no resource is skipped."""
    for part in re.split(r",(?![^(]*\))", text[:4096]):
        found = _ENTRY.fullmatch(part.strip())
        if found:
            count = min(int(found["count"][:12]), _MOST) if found["count"] else 1
            yield found["name"].lower(), found["type"], min(count * _UNITS[(found["unit"] or "").lower()], _MOST)
