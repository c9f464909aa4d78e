"""Energy records: what was measured on the nodes, joined to outcomes.

A record is one JSON file for one job run on one node, named ``JOBID-NODE.json``: ``job_id``, ``start_time``,
``end_time``, ``node``, ``nodes`` (of the whole job), ``gpus``, ``energy_j``, and where it is known ``gpu_memory_gb``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from slurmcast.codec import CodecError, from_json
from slurmcast.model import J_PER_KWH, Outcome

SLACK_S = 60
"""A record belongs to the run during which it began, give or take what prolog and clocks differ."""


@dataclass(frozen=True, slots=True)
class EnergyRecord:
    job_id: int
    start_time: float
    end_time: float
    node: str
    nodes: int
    gpus: int
    energy_j: float
    gpu_memory_gb: float | None = None
    """Peak memory of the GPU that used most on this node, where it was measured."""


def read(folder: Path, job_ids: Container[int]) -> list[EnergyRecord]:
    """The records of those jobs. Unreadable ones are passed over: a missing reading is a gap, never 0."""
    records = []
    for path in folder.glob("*-*.json"):
        job_id = path.name.split("-")[0]
        if job_id.isdigit() and int(job_id) in job_ids:
            try:
                record = from_json(EnergyRecord, json.loads(path.read_bytes()))
            except (OSError, ValueError, CodecError):
                continue
            if math.isfinite(record.energy_j) and record.energy_j >= 0:
                records.append(record)
    return records


def join(outcome: Outcome, records: Iterable[EnergyRecord]) -> Outcome:
    """The outcome with the energy of all its nodes in kWh; unchanged (None) where a node's record is missing."""
    mine = {
        r.node: r
        for r in records
        if r.job_id == outcome.job_id and abs(r.start_time - outcome.start_time) <= SLACK_S + outcome.elapsed_s / 2
    }
    complete = bool(mine) and len(mine) == next(iter(mine.values())).nodes
    if not complete or sum(r.gpus for r in mine.values()) != outcome.gpus:
        return outcome
    peaks = [r.gpu_memory_gb for r in mine.values()]
    return replace(
        outcome,
        energy_kwh=sum(r.energy_j for r in mine.values()) / J_PER_KWH,
        gpu_memory_gb=None if None in peaks else max(peak for peak in peaks if peak is not None),
    )
