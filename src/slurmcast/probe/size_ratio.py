"""The default probe, ``size+ratio``: one Gaussian process for time and one for a GPU's power, each over all GPU types.

A job's size is shared by all types, the ratio between types is drawn to the types' average where evidence is thin
(:mod:`slurmcast.probe.kernel`). Energy is time x power x GPUs: power varies much less between jobs than energy does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurmcast.probe.amounts import ahead, split, typical_of_groups, typical_of_nearest
from slurmcast.probe.estimator import Asked, Tensors, Trained
from slurmcast.probe.examples import Sample, log_energy
from slurmcast.probe.features import Array, Numbers, choose_numbers, unit
from slurmcast.probe.intervals import Predictions
from slurmcast.probe.kernel import Inputs
from slurmcast.probe.process import Process, cross_fit, fit
from slurmcast.probe.territory import Survey

MAX_SAMPLES = 1000
"""Samples that are kept, the latest ones: at this number training takes some 5 s and a prediction 2 ms."""
MIN_MEASURED = 9
"""Keys with measured energy from which energy is predicted."""


@dataclass(frozen=True)
class SizeRatio:
    """The trained processes. ``power`` is None where too few runs were measured."""

    types: tuple[str, ...]
    numbers: Numbers
    near: float
    """Distance up to which a job's script counts as that of the nearest example."""
    time: Process
    power: Process | None

    def predict(self, asked: Sequence[Asked]) -> Predictions:
        """See :class:`slurmcast.probe.estimator.Estimator`."""
        plain = _inputs(asked, self.numbers, self.types)
        typical = typical_of_nearest(self.numbers, plain, self.time.inputs, self.near)
        inputs = replace(plain, rows=split(self.numbers, plain.rows, typical))
        log_time, time_spread = self.time.predict(inputs)
        power = None if self.power is None else self.power.predict(inputs)
        return _predictions(asked, log_time + ahead(self.numbers, inputs.rows), time_spread, power)

    def parts(self) -> tuple[Tensors, dict[str, Any]]:
        """See :class:`slurmcast.probe.estimator.Estimator`."""
        tensors: Tensors = {}
        for name, process in (("time", self.time), ("power", self.power)):
            if process is not None:
                tensors |= {
                    f"{name}.theta": process.theta,
                    f"{name}.vectors": process.inputs.vectors,
                    f"{name}.rows": process.inputs.rows,
                    f"{name}.types": process.inputs.types,
                    f"{name}.targets": process.targets,
                    f"{name}.runs": process.runs,
                }
        return tensors, {"types": list(self.types), "numbers": self.numbers.to_settings(), "near": self.near}


def restore(tensors: Tensors, settings: Mapping[str, Any]) -> SizeRatio:
    """The estimator that :meth:`SizeRatio.parts` described."""

    def process(name: str) -> Process:
        inputs = Inputs(tensors[f"{name}.vectors"], tensors[f"{name}.rows"], tensors[f"{name}.types"])
        return Process(tensors[f"{name}.theta"], inputs, tensors[f"{name}.targets"], tensors[f"{name}.runs"])

    power = process("power") if "power.theta" in tensors else None
    numbers = Numbers.from_settings(settings["numbers"])
    return SizeRatio(tuple(settings["types"]), numbers, float(settings["near"]), process("time"), power)


def train(samples: Sequence[Sample], surveyed: Survey, seed: int) -> Trained:
    """Train on ``samples`` (at most :data:`MAX_SAMPLES`), and predict each without its own runs, without its key, and
    (where there are enough clusters of scripts) without its cluster."""
    types = tuple(sorted({sample.type for sample in samples}))
    numbers = choose_numbers(samples)
    plain = _inputs(samples, numbers, types)
    alone = range(len(samples))  # each row a script of its own, as one that isn't known
    inputs = replace(plain, rows=split(numbers, plain.rows, typical_of_groups(numbers, plain.rows, surveyed.clusters)))
    unknown = replace(plain, rows=split(numbers, plain.rows, typical_of_groups(numbers, plain.rows, alone)))
    times = np.array([sample.log_time for sample in samples]) - ahead(numbers, inputs.rows)
    time = fit(inputs, times, np.array([float(sample.runs) for sample in samples]), seed)
    measured = [i for i, sample in enumerate(samples) if sample.log_power is not None]
    power = None
    if len({samples[i].key for i in measured}) >= MIN_MEASURED:
        powers = np.array([samples[i].log_power for i in measured], np.float64)
        runs = np.array([float(samples[i].measured) for i in measured])
        power = fit(inputs.take(np.array(measured)), powers, runs, seed)

    def without(folds: Sequence[Hashable], ways: Sequence[tuple[Sequence[Hashable], Inputs]]) -> list[Predictions]:
        """Left-out predictions for each way of grouping, by processes that are refitted without folds of ``folds``."""
        timed = cross_fit(time, folds, seed)
        powered = None if power is None else cross_fit(power, [folds[i] for i in measured], seed)
        found = []
        for groups, asked in ways:
            log_time, time_spread = timed.left_out(groups, asked)
            left: tuple[Array, Array] | None = None
            if powered is not None:
                left = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
                chosen = np.array(measured)
                left[0][chosen], left[1][chosen] = powered.left_out([groups[i] for i in measured], asked.take(chosen))
            found.append(_predictions(samples, log_time + ahead(numbers, asked.rows), time_spread, left))
        return found

    keys = [sample.key for sample in samples]
    without_key, without_sample = without(keys, [(keys, inputs), (range(len(samples)), inputs)])
    without_cluster = None
    if surveyed.far_tested:
        (without_cluster,) = without(surveyed.clusters, [(surveyed.clusters, unknown)])
    return Trained(
        estimator=SizeRatio(types, numbers, surveyed.territory.near, time, power),
        without_key=without_key,
        without_sample=without_sample,
        without_cluster=without_cluster,
    )


def _inputs(asked: Sequence[Asked], numbers: Numbers, types: tuple[str, ...]) -> Inputs:
    vectors = unit(np.stack([job.vector for job in asked]))
    rows = np.stack([numbers.row(job.numbers, job.gpus) for job in asked])
    return Inputs(vectors, rows, np.array([types.index(job.type) for job in asked], np.int64))


def _predictions(
    asked: Sequence[Asked], log_time: Array, time_spread: Array, power: tuple[Array, Array] | None
) -> Predictions:
    if power is None:
        nothing = np.full(len(asked), np.nan)
        return Predictions(log_time, time_spread, nothing, nothing)
    gpus = np.array([job.gpus for job in asked])
    energy = np.array([log_energy(t, p, a) for t, p, a in zip(log_time, power[0], gpus, strict=True)])
    return Predictions(log_time, time_spread, energy, np.hypot(time_spread, power[1]))
