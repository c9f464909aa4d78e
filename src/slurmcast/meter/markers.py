"""What prolog and epilog drop: one small file each, ``JOBID.START.begin`` and ``JOBID.START.end``. Pure.

Each line is ``NAME=value``, the last one is ``complete``: a file without it is still being written. Its modification
time is when prolog or epilog ran, so they need no clock of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"(\d{1,10})\.(\d{1,12})\.(begin|end)", re.ASCII)
MAX_BYTES = 16384


@dataclass(frozen=True, slots=True)
class Begin:
    """What the prolog knew of a job on this node."""

    key: str
    """``JOBID.START``: the run's name among those of this node; a requeued job keeps its number, not its start."""
    at: float
    """When it ran, in Unix seconds."""
    job_id: int
    start_time: int
    """As Slurm has it; Unix seconds."""
    cluster: str
    node: str
    nodes: int
    gpus: tuple[str, ...]
    """Each a number (the minor of /dev/nvidiaN), a GPU's UUID or a MIG device's."""
    mps: bool
    whole_node: bool = False
    """Whether nobody else may run on the node meanwhile; Slurm before 26.05 doesn't tell it."""


def parse(name: str, content: bytes, at: float) -> Begin | None:
    """A ``begin`` marker; None where it isn't complete, or of a job without GPUs. ValueError: it is no such marker."""
    match = NAME.fullmatch(name)
    if match is None or match[3] != "begin" or len(content) > MAX_BYTES:
        raise ValueError(f"{name} is no marker of slurmcast's prolog")
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines or lines[-1] != "complete":
        return None
    facts = dict(line.split("=", 1) for line in lines[:-1] if "=" in line)
    gpus = _gpus(facts.get("SLURM_JOB_GPUS", ""), facts.get("CUDA_VISIBLE_DEVICES", ""))
    if not gpus:
        return None
    nodes = facts.get("SLURM_JOB_NUM_NODES", "")
    return Begin(
        key=f"{match[1]}.{match[2]}",
        at=at,
        job_id=int(match[1]),
        start_time=int(match[2]) or int(at),  # Slurm before 23.02 doesn't tell it
        cluster=facts.get("SLURM_CLUSTER_NAME", ""),
        node=facts.get("SLURMD_NODENAME", ""),
        nodes=int(nodes) if nodes.isascii() and nodes.isdigit() else 1,
        gpus=gpus,
        mps=bool(facts.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")),
        whole_node=facts.get("SLURM_JOB_EXCLUSIVE") == "NODE",
    )


def _gpus(numbers: str, visible: str) -> tuple[str, ...]:
    """The job's GPUs: by UUID where Slurm says so, else by number."""
    words = [word.strip() for word in visible.split(",") if word.strip()]
    if words and all(word.startswith(("GPU-", "MIG-")) for word in words):
        return tuple(words)
    return tuple(word.strip() for word in numbers.split(",") if word.strip())
