"""What a job asks for: Slurm's own fields first, then the script's directives (principle: Slurm's record wins)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmcast.model import GpuRequest
from slurmcast.script import options
from slurmcast.script.gres import FIELDS, option_fields, parse_gpu_request, total_gpus

_UNSET = frozenset((0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE))
"""NO_VAL16, NO_VAL and NO_VAL64 of slurm.h: the user said nothing."""
_INFINITE = frozenset((0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF))
_PER_CPU = 1 << 63
"""MEM_PER_CPU of slurm.h, set in ``pn_min_memory`` where the value is per CPU."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What is asked for. ``numbers`` has only what is known: nodes, tasks, gpus, memory_mb, time_limit_s, ..."""

    numbers: dict[str, float]
    gpus: GpuRequest | None = None
    gpus_total: int = 0
    time_limit_s: int | None = None


def read(request: Mapping[str, str], opts: Mapping[str, str], array: str = "") -> Resources:
    """Put together Slurm's fields (``request``, see the spool format) and sbatch's options (``opts``). Never raises.

    A time limit is None where there is none or it is unlimited; nodes are the least that was asked for.
    """
    per_node = _first(_integer(request, "ntasks_per_node"), options.count(opts.get("ntasks-per-node", "")))
    asked_tasks = _first(_integer(request, "num_tasks"), options.count(opts.get("ntasks", "")))
    nodes = _nodes(request, opts.get("nodes", ""), -(-(asked_tasks or 1) // (per_node or asked_tasks or 1)))
    tasks = asked_tasks or (per_node or 1) * nodes
    gpus = _gpus(request, opts, tasks)
    sockets = options.count(opts.get("sockets-per-node", "")) or 1
    time_limit_s = _time_limit_s(request, opts)
    known = {
        "nodes": nodes,
        "tasks": tasks,
        "ntasks_per_node": per_node,
        "gpus": total_gpus(gpus, nodes, tasks, sockets) or None,
        "cpus_per_task": _first(_integer(request, "cpus_per_task"), options.count(opts.get("cpus-per-task", ""))),
        "time_limit_s": time_limit_s,
        "array_size": options.array_size(array or opts.get("array", "")),
        **_memory(request, opts),
    }
    numbers = {name: float(value) for name, value in known.items() if value}
    return Resources(numbers, gpus, int(numbers.get("gpus", 0)), time_limit_s)


def _nodes(request: Mapping[str, str], option: str, needed: int) -> int:
    """The least number of nodes: as asked, and as many as the tasks need unless fewer are the most that was asked."""
    least, most = _integer(request, "min_nodes"), _integer(request, "max_nodes")
    if least is None:
        least, most = options.least_nodes(option), options.count(option)
    return max(least or 1, min(needed, most or needed))


def _time_limit_s(request: Mapping[str, str], opts: Mapping[str, str]) -> int | None:
    minutes = request.get("time_limit", "")
    if _number(minutes) in _INFINITE:
        return None
    known = _integer(request, "time_limit")
    return known * 60 if known else options.time_limit_s(opts.get("time", ""))


def _memory(request: Mapping[str, str], opts: Mapping[str, str]) -> dict[str, int | None]:
    value = _number(request.get("pn_min_memory", ""))
    if value is not None and value not in _UNSET | _INFINITE:
        return {"memory_per_cpu_mb": value - _PER_CPU} if value >= _PER_CPU else {"memory_mb": value}
    per_cpu = options.memory_mb(opts.get("mem-per-cpu", ""))
    return {
        "memory_mb": _first(_integer(request, "min_mem_per_node"), options.memory_mb(opts.get("mem", ""))),
        "memory_per_cpu_mb": _first(_integer(request, "min_mem_per_cpu"), per_cpu),
    }


def _gpus(request: Mapping[str, str], opts: Mapping[str, str], tasks: int) -> GpuRequest | None:
    """Slurm's own fields, else the options; --ntasks-per-gpu alone leaves no trace in the ``tres_per_*`` fields."""
    tasks_per_gpu = _integer(request, "ntasks_per_gpu")
    told = parse_gpu_request(request)
    if told is None and tasks_per_gpu:
        return GpuRequest(per_job=-(-tasks // tasks_per_gpu))
    if told is None and not any(request.get(field) for field in FIELDS):
        return parse_gpu_request(option_fields(opts))
    return told


def _integer(request: Mapping[str, str], name: str) -> int | None:
    value = _number(request.get(name, ""))
    return None if value is None or value in _UNSET | _INFINITE or not 0 < value < 1 << 32 else value


def _number(text: str) -> int | None:
    """A whole number as Lua prints it (``4``, ``4.0``); None for anything else, also for rounded (``9.2e+18``)."""
    text = text.strip().removesuffix(".0")
    return int(text) if len(text) < 24 and text.isascii() and text.isdigit() else None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
