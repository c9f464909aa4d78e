"""The Standard Workload Format of the Parallel Workloads Archive (Chapin et al. 1999, "Benchmarks and standards for the
evaluation of parallel job schedulers"; cs.huji.ac.il/labs/parallel/workload/swf.html).

One line per job with 18 numbers, -1 where something isn't known; lines that begin with ``;`` are the header. The logs
are of machines with processors of one kind: processors stand for GPUs, and the times on other types than the one that
the log is taken for come from published speed ratios. So all jobs have the same ratio, and energies are modelled.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurmcast.model import J_PER_KWH
from slurmcast.policy.base import Floats
from slurmcast.simulate.replay.trace import LARGEST, Pools, Trace, TraceError, said, submitted

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
"""In the order of the columns."""
PART_OF_A_JOB = (2, 3, 4)
"""Statuses of lines that stand for a piece of a job which has a line of its own for the whole."""


@dataclass(frozen=True)
class Log:
    """The lines of a file, (n, 18), NaN where it has -1."""

    jobs: Floats

    def field(self, name: str) -> Floats:
        """The column of that name, (n,)."""
        column: Floats = self.jobs[:, FIELDS.index(name)]
        return column


def read(path: Path) -> Log:
    """Read a log, ``.gz`` or plain. Raises :class:`TraceError` with file, line and field."""
    opened = gzip.open if path.suffix == ".gz" else open
    rows: list[list[float]] = []
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file, 1):
                words = line.split()
                if words and not words[0].startswith(";"):
                    rows.append(_numbers(words, f"{path}:{number}"))
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise TraceError(f"{path}: no jobs in it; is it a log in the Standard Workload Format?")
    jobs = np.array(rows)
    return Log(np.where(jobs == -1, np.nan, jobs))


def _numbers(words: list[str], where: str) -> list[float]:
    if len(words) != len(FIELDS):
        raise TraceError(f"{where}: {len(words)} fields, the Standard Workload Format has {len(FIELDS)}")
    found = []
    for place, (name, word) in enumerate(zip(FIELDS, words, strict=True), 1):
        try:
            number = float(word)
        except ValueError:
            number = np.nan
        if not abs(number) < LARGEST:  # nor NaN
            raise TraceError(f"{where}: field {place} ({name}) = {word!r}: must be a number, -1 where unknown")
        found.append(number)
    return found


def trace(log: Log, pools: Pools, per_gpu: int = 1, recorded_on: str = "") -> Trace:
    """The log's jobs on ``pools``.

    ``per_gpu``: processors that stand for one GPU, a part of one counts as a whole. ``recorded_on``: the GPU type that
    the log's times hold for, default: the first. Jobs that never ran and jobs larger than every pool are left out.
    """
    names = tuple(pools.counts)
    ran_on = recorded_on or pools.gpu_types[names[0]]
    allocated, asked = log.field("allocated processors"), log.field("requested processors")
    processors = np.where(np.isnan(allocated), asked, allocated)
    run_s, submit_s = log.field("run time"), log.field("submit time")
    a = np.repeat(np.ceil(processors / per_gpu)[:, None], len(names), axis=1)
    may = a <= np.array(list(pools.counts.values()))
    piece = np.isin(log.field("status"), PART_OF_A_JOB)
    ran = ~piece & (run_s > 0) & (processors > 0) & ~np.isnan(submit_s)
    too_large = ran & ~may.any(axis=1)
    chosen = ran & ~too_large
    if not ran.any():
        raise TraceError("no job of the log ever ran, with its time, processors and submission known")
    if not chosen.any():
        raise TraceError("no job of the log can run: give more GPUs by --gpus, or more processors a GPU by --per-gpu")
    time_s = run_s[:, None] * pools.longer(ran_on)
    limit_s = log.field("requested time")
    left_out = {
        "pieces of jobs that have a line for the whole": int(piece.sum()),
        "they never ran, or time, processors or submission isn't known": int((~ran & ~piece).sum()),
        "larger than every pool of GPUs": int(too_large.sum()),
    }
    notes = [
        f"{int(chosen.sum())} jobs, {per_gpu} processor(s) for a GPU; the recorded times are taken for {ran_on}, times "
        "on other types by published speed ratios; energy by published mean power",
        *said(left_out),
        *pools.unpublished(ran_on),
        *([f"{count} jobs without a time limit"] if (count := int(np.isnan(limit_s[chosen]).sum())) else []),
    ]
    workload = submitted(
        submit_s[chosen],
        a[chosen],
        may[chosen],
        time_s[chosen],
        (a * time_s * pools.power_w() / J_PER_KWH)[chosen],
        np.where(limit_s > 0, limit_s, np.inf)[chosen],
        ["" if np.isnan(user) else f"{user:.0f}" for user in log.field("user")[chosen]],
    )
    return Trace(workload, pools.cluster(), tuple(notes))
