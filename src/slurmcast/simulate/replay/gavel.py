"""Gavel's traces (Narayanan et al. 2020, "Heterogeneity-aware cluster scheduling policies for deep learning workloads",
OSDI; github.com/stanford-futuredata/gavel): arrivals like those of Microsoft's Philly clusters, with measured speeds.

A trace has a line per job, its fields between tabs: job type, command, the option that takes the number of steps,
whether it needs a data folder, steps, arrival in s, GPUs. ``simulation_throughputs.json`` has the steps per second of
each job type and number of GPUs on each GPU type, measured alone under ``null``.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurmcast.model import J_PER_KWH
from slurmcast.policy.base import Floats
from slurmcast.simulate.replay.trace import LARGEST, Pools, Trace, TraceError, said, submitted

Speeds = Mapping[str, Mapping[tuple[str, int], float]]
"""Steps per second by GPU type, then by job type and number of GPUs; 0: it doesn't run there (too little memory)."""
FIELDS = 7
LEAST_SHARE = 0.05
"""Of their time limit, jobs use at least this."""


@dataclass(frozen=True)
class Line:
    """One job of a trace."""

    job_type: str
    steps: int
    arrival_s: float
    gpus: int


def read(path: Path) -> list[Line]:
    """Read a trace. Raises :class:`TraceError` with file, line and field."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    found = [_line(line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not found:
        raise TraceError(f"{path}: no jobs in it; is it one of Gavel's traces?")
    return found


def _line(line: str, where: str) -> Line:
    fields = line.split("\t")
    if len(fields) != FIELDS:
        raise TraceError(f"{where}: {len(fields)} fields between tabs, a trace of Gavel has {FIELDS}")
    values = []
    for place, name, least in ((4, "steps", 1.0), (5, "arrival", 0.0), (6, "GPUs", 1.0)):
        try:
            value = float(fields[place])
        except ValueError:
            value = -1.0
        if not least <= value < LARGEST:
            raise TraceError(f"{where}: field {place + 1} ({name}) = {fields[place]!r}: must be a number >= {least:g}")
        values.append(value)
    return Line(fields[0], int(values[0]), values[1], int(values[2]))


def speeds(path: Path) -> Speeds:
    """Read ``simulation_throughputs.json``. Raises :class:`TraceError`."""
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
        return {
            gpu_type: {ast.literal_eval(job): float(entry["null"]) for job, entry in jobs.items()}
            for gpu_type, jobs in table.items()
        }
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, SyntaxError, AttributeError, KeyError, TypeError, RecursionError, MemoryError):
        raise TraceError(f"{path}: not a table of Gavel's throughputs (simulation_throughputs.json)") from None


def trace(lines: list[Line], table: Speeds, pools: Pools, seed: int) -> Trace:
    """The jobs on ``pools``; those whose speed at that number of GPUs wasn't measured anywhere are left out."""
    if unknown := [name for name in pools.gpu_types.values() if name not in table]:
        raise TraceError(f"--gpus: no throughputs of {', '.join(unknown)}; there are: {', '.join(table)}")
    columns = [table[pools.gpu_types[name]] for name in pools.counts]
    speed = np.array([[column.get((line.job_type, line.gpus), 0.0) for column in columns] for line in lines])
    a = np.repeat(np.array([line.gpus for line in lines], np.float64)[:, None], len(columns), axis=1)
    runs = speed > 0
    may = runs & (a <= np.array(list(pools.counts.values())))
    measured = runs.any(axis=1)
    chosen = may.any(axis=1)
    if not chosen.any():
        raise TraceError("no job of the trace can run: give more GPUs by --gpus, or another table by --throughputs")
    steps = np.array([line.steps for line in lines], np.float64)
    time_s = np.divide(steps[:, None], speed, out=np.full(speed.shape, np.nan), where=runs)[chosen]
    left_out = {
        "their speed on that many GPUs wasn't measured": int((~measured).sum()),
        "larger than every pool of GPUs": int((measured & ~chosen).sum()),
    }
    notes = [
        f"{int(chosen.sum())} jobs with measured speeds; energy by published mean power; time limits drawn at random",
        *said(left_out),
    ]
    workload = submitted(
        np.array([line.arrival_s for line in lines])[chosen],
        a[chosen],
        may[chosen],
        time_s,
        a[chosen] * time_s * pools.power_w() / J_PER_KWH,
        limits(np.where(may[chosen], time_s, 0.0).max(axis=1), seed),
    )
    return Trace(workload, pools.cluster(), tuple(notes))


def limits(longest_s: Floats, seed: int) -> Floats:
    """Time limits as users ask for them, (n,), for jobs that run ``longest_s`` on the slowest type where they may.

    The share of the limit that a job uses is drawn evenly over its range (Mu'alem and Feitelson 2001, "Utilization,
    predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling").
    """
    shares = np.random.default_rng(seed).uniform(LEAST_SHARE, 1.0, len(longest_s))
    result: Floats = longest_s / shares
    return result
