"""What other programs measured of a finished run and left in Slurm's accounting (docs/meter.md). Pure.

A reader takes what accounting has of a run, and the outcome that was made of it; it returns the outcome with what it
found. ``agent.usage_from`` names those that are asked.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slurmcast.meter.record import MAX_GAP_SHARE
from slurmcast.model import J_PER_KWH, Outcome

BYTES_PER_GB = 2**30
NO_VALUE = frozenset({0, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE})
"""Joules that mean that nothing was measured: none, and Slurm's NO_VAL and NO_VAL64."""
JOBSTATS = "JS1:"
MOST_JSON_BYTES = 1 << 22
MOST = 2**63
"""Of bytes, and of whatever else."""
GZIP = 31
"""What zlib calls gzip's frame with the largest window."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What accounting has of a run."""

    record: Any
    """A pyslurm.db.Job."""
    alone: bool
    """Whether it had its nodes to itself."""


Reader = Callable[[Finished, Outcome], Outcome]


def consumed_energy(run: Finished, outcome: Outcome) -> Outcome:
    """With the energy of the run's whole nodes, as a plugin of Slurm's (acct_gather_energy) measured it.

    Each step's ConsumedEnergy is all that its nodes used while it ran, whoever used it. So only a run that was alone
    on its nodes has an energy, and steps are never summed: the batch step and those inside it hold the same joules. It
    is that of one step which was on all of the nodes all of the time. What stands in the job's own TRES isn't used: it
    is the sum of its steps but the batch step, and a user may overwrite it.
    """
    record = run.record
    needed_s = (1 - MAX_GAP_SHARE) * outcome.elapsed_s
    whole = [
        (step.elapsed_time, step.stats.consumed_energy)
        for step in record.steps.values()
        if step.num_nodes == record.num_nodes and (step.elapsed_time or 0) >= needed_s
    ]
    known = [(time_s, joules) for time_s, joules in whole if joules and joules not in NO_VALUE]
    if not run.alone or not known:
        return outcome
    _, joules = max(known)
    return replace(outcome, energy_kwh=joules / J_PER_KWH, energy_method="slurm")


def jobstats(run: Finished, outcome: Outcome) -> Outcome:
    """With peak memory and mean utilisation of its GPUs from the summary that jobstats keeps in AdminComment.

    It is gzipped JSON in base64: for each node bytes and percent by GPU
    (https://github.com/PrincetonUniversity/jobstats, docs/setup/summaries.md).
    """
    nodes = _summary(run.record.admin_comment or "")
    used, percent = _by_gpu(nodes, "gpu_used_memory"), _by_gpu(nodes, "gpu_utilization")
    if len(used) == outcome.gpus:
        outcome = replace(outcome, gpu_memory_gb=max(used) / BYTES_PER_GB)
    if len(percent) == outcome.gpus and max(percent) <= 100:
        outcome = replace(outcome, gpu_utilisation=sum(percent) / len(percent) / 100)
    return outcome


READERS: Mapping[str, Reader] = {"slurm": consumed_energy, "jobstats": jobstats}
"""By their names in ``agent.usage_from``."""


def read(names: Iterable[str], run: Finished, outcome: Outcome) -> Outcome:
    """``outcome`` with what the readers of those names found, but for what can't be."""
    for name in names:
        found = READERS[name](run, outcome)
        outcome = found if found.is_possible else outcome
    return outcome


def alone(cpus: int, nodes: Iterable[str], cpus_of: Mapping[str, int]) -> bool:
    """Whether a run with ``cpus`` allocated CPUs on ``nodes`` left none for others; False where it isn't known how many
    a node has."""
    return cpus >= sum(cpus_of.get(name, cpus + 1) for name in nodes)


def _summary(comment: str) -> list[Any]:
    """The nodes of jobstats' summary; none where there is no summary, or nothing of use."""
    if not comment.startswith(JOBSTATS):
        return []
    try:
        packed = base64.b64decode(comment.removeprefix(JOBSTATS), validate=True)
        unpacked = zlib.decompressobj(GZIP).decompress(packed, MOST_JSON_BYTES)
        return list(json.loads(unpacked)["nodes"].values())
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # "JS1:Short" and "JS1:None" too


def _by_gpu(nodes: Iterable[Any], name: str) -> list[float]:
    """That figure of each GPU; none at all where one is no number, or no possible one."""
    tables = [node.get(name) for node in nodes if isinstance(node, dict)]
    values = [value for table in tables if isinstance(table, dict) for value in table.values()]
    return values if all(type(value) in (int, float) and 0 <= value < MOST for value in values) else []
