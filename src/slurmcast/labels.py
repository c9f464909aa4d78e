"""From the store's labels to what the probes and the history learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.examples import Example
from slurmcast.probe.history import Kin, Run
from slurmcast.store.promises import Promise
from slurmcast.store.records import MOST_KIN, Label, Origin

Finished = TypeVar("Finished", Label, Promise)

MIN_TIME_S = 1.0
"""Slurm counts whole seconds: a shorter run is taken for one of a second."""


def examples(labels: Iterable[Label], vectors: Mapping[str, NDArray[np.float32]]) -> list[Example]:
    """``labels`` with their vectors, by text key; one whose vector isn't there (another encoder's) is left out."""
    return [
        Example(
            key=label.key,
            vector=vectors[label.text_key],
            numbers=label.reading.numbers,
            gpus=label.outcome.gpus,
            partition=label.outcome.partition,
            gpu_type=label.outcome.gpu_type,
            time_s=max(label.outcome.elapsed_s, MIN_TIME_S),
            energy_kwh=label.outcome.energy_kwh,
            gpu_memory_gb=label.outcome.gpu_memory_gb,
            owner=label.origin.uid,
        )
        for label in of_one_kind(labels)
        if label.text_key in vectors
    ]


def runs(labels: Iterable[Label], origin: Origin) -> list[Run]:
    """The latest runs among ``labels`` that are the same user's and related to ``origin``, as many as history is told
    from; without impossible ones."""
    known = ((kinship(label.origin, origin), label) for label in labels if label.outcome.is_possible)
    related = [(kin, label) for kin, label in known if kin is not None]
    latest = sorted(related, key=lambda pair: pair[1].outcome.start_time, reverse=True)[:MOST_KIN]
    of_one = of_one_kind(label for _, label in latest)
    return [
        Run(
            kin=kin,
            numbers=label.reading.numbers,
            gpus=label.outcome.gpus,
            type=label.outcome.gpu_type or label.outcome.partition,
            time_s=max(label.outcome.elapsed_s, MIN_TIME_S),
            energy_kwh=label.outcome.energy_kwh,
            ended=label.outcome.end_time,
        )
        for (kin, _), label in zip(latest, of_one, strict=True)
    ]


def of_one_kind(finished: Iterable[Finished]) -> list[Finished]:
    """``finished`` runs with energies of one kind, that of the run which was measured last: whole nodes' (of Slurm's
    ConsumedEnergy) and GPUs' don't compare. The others have none."""
    listed = list(finished)
    measured = [run.outcome for run in listed if run.outcome.energy_kwh is not None]
    of_nodes = {outcome.energy_method == "slurm" for outcome in measured}
    if len(of_nodes) < 2:
        return listed
    last = max(measured, key=lambda outcome: outcome.end_time).energy_method == "slurm"
    return [
        run
        if (run.outcome.energy_method == "slurm") is last
        else replace(run, outcome=replace(run.outcome, energy_kwh=None))
        for run in listed
    ]


def kinship(one: Origin, other: Origin) -> Kin | None:
    """How two submissions are related; None where they aren't, or aren't the same user's."""
    if one.uid != other.uid:
        return None
    if one.key == other.key:
        return Kin.WORK
    if one.script_sha256 == other.script_sha256:
        return Kin.SCRIPT
    return Kin.NAME if one.name and one.name == other.name else None
