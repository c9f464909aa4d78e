"""The default probe, ``size+ratio``: Gaussian processes for time, a GPU's power and memory, each over all GPU types.

A job's size is shared by all types, the ratio between types is drawn to the types' average where evidence is thin
(:mod:`slurmcast.probe.kernel`). Energy is time x power x GPUs: power varies much less between jobs than energy does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.amounts import ahead, split, typical_of_groups, typical_of_nearest
from slurmcast.probe.estimator import Asked, Tensors, Trained
from slurmcast.probe.examples import Sample, log_energy
from slurmcast.probe.fair_share import shares
from slurmcast.probe.features import Array, Numbers, choose_numbers, unit
from slurmcast.probe.intervals import LEAST, Guess, Predictions
from slurmcast.probe.kernel import Inputs
from slurmcast.probe.process import Process, cross_fit, fit
from slurmcast.probe.recalibration import Recalibration, learn, learn_without
from slurmcast.probe.territory import MIN_CLUSTERS, ONE_PROGRAM, Survey

MAX_SAMPLES = 1000
"""Samples that are kept, the latest ones: at this number training for three targets takes some 75 s of CPU time on a
busy machine, a prediction 17 ms."""
MIN_MEASURED = 9
"""Keys of which a quantity was measured, from which it is predicted."""
QUANTITIES: Mapping[str, Callable[[Sample], tuple[float | None, int]]] = {
    "time": lambda sample: (sample.log_time, sample.runs),
    "power": lambda sample: (sample.log_power, sample.measured),
    "memory": lambda sample: (sample.log_memory, sample.memory_runs),
}
"""What has a process of its own: its logarithm, and how many runs that is the mean of."""
NEEDED = {"time": ("time",), "energy": ("time", "power"), "memory": ("memory",)}
"""The quantities from which each target is made."""


@dataclass(frozen=True)
class SizeRatio:
    """The trained processes by quantity; one isn't there where too few runs were measured."""

    types: tuple[str, ...]
    numbers: Numbers
    processes: Mapping[str, Process]
    typical: Array
    """Typical amounts of each time example's script, (n, q), NaN where it has none."""
    recalibrations: Mapping[str, Recalibration]
    """By quantity, for programs that aren't known; none where too few were left out."""

    def predict(self, asked: Sequence[Asked]) -> Predictions:
        """See :class:`slurmcast.probe.estimator.Estimator`."""
        plain = _inputs(asked, self.numbers, self.types)
        levels, usual = _levels(asked, self.numbers)
        vectors = self.processes["time"].inputs.vectors
        typical, known = typical_of_nearest(plain.vectors, usual, vectors, self.typical, ONE_PROGRAM)
        inputs = replace(plain, rows=split(self.numbers, plain.rows, levels, typical))
        learned = {name: Guess(*process.predict(inputs)) for name, process in self.processes.items()}
        found = _with_granted(learned, ahead(self.numbers, inputs.rows))
        for name, recalibration in self.recalibrations.items():
            told = found[name].middle
            found[name] = replace(found[name], middle=np.where(known, told, recalibration.apply(told, inputs.types)))
        return _targets(asked, found)

    def parts(self) -> tuple[Tensors, dict[str, Any]]:
        """See :class:`slurmcast.probe.estimator.Estimator`."""
        tensors: Tensors = {"typical": self.typical}
        for name, process in self.processes.items():
            tensors |= {
                f"{name}.theta": process.theta,
                f"{name}.vectors": process.inputs.vectors,
                f"{name}.rows": process.inputs.rows,
                f"{name}.types": process.inputs.types,
                f"{name}.targets": process.targets,
                f"{name}.runs": process.runs,
            }
        return tensors, {
            "types": list(self.types),
            "numbers": self.numbers.to_settings(),
            "recalibrations": {name: found.to_settings() for name, found in self.recalibrations.items()},
        }


def restore(tensors: Tensors, settings: Mapping[str, Any]) -> SizeRatio:
    """The estimator that :meth:`SizeRatio.parts` described."""

    numbers = Numbers.from_settings(settings["numbers"])

    def process(name: str) -> Process:
        vectors, rows, types = (tensors[f"{name}.{part}"] for part in ("vectors", "rows", "types"))
        inputs = Inputs(vectors, rows, types, len(numbers.own))
        return Process(tensors[f"{name}.theta"], inputs, tensors[f"{name}.targets"], tensors[f"{name}.runs"])

    processes = {name: process(name) for name in QUANTITIES if f"{name}.theta" in tensors}
    types = tuple(settings["types"])
    recalibrations = {
        name: Recalibration.from_settings(found, len(types)) for name, found in settings["recalibrations"].items()
    }
    return SizeRatio(types, numbers, processes, tensors["typical"], recalibrations)


def train(samples: Sequence[Sample], surveyed: Survey, seed: int, targets: Sequence[str]) -> Trained:
    """Train on ``samples`` (at most :data:`MAX_SAMPLES`) for ``targets``, and predict each without its own runs,
    without its key, and (where there are enough clusters of scripts) without its cluster."""
    types = tuple(sorted({sample.type for sample in samples}))
    numbers = choose_numbers(samples)
    plain = _inputs(samples, numbers, types)
    levels, usual = _levels(samples, numbers)
    typical = typical_of_groups(levels, surveyed.clusters)
    inputs = replace(plain, rows=split(numbers, plain.rows, levels, typical))
    unknown = replace(plain, rows=split(numbers, plain.rows, levels, usual))
    wanted = {quantity for target in targets for quantity in NEEDED[target]}
    granted = ahead(numbers, inputs.rows)
    fitted = {
        name: found
        for name in QUANTITIES
        if name in wanted and (found := _fit(name, samples, inputs, granted, surveyed.clusters)) is not None
    }

    def without(folds: Sequence[Hashable], ways: Sequence[tuple[Sequence[Hashable], Inputs]]) -> list[dict[str, Guess]]:
        """Left-out quantities for each way of grouping, by processes that are refitted without folds of ``folds``."""
        crossed = {
            name: (index, cross_fit(process, [folds[i] for i in index], seed))
            for name, (index, process) in fitted.items()
        }
        found = []
        for groups, asked in ways:
            guesses = {}
            for name, (index, cross) in crossed.items():
                guess = Guess(np.full(len(samples), np.nan), np.full(len(samples), np.nan))
                left_out = cross.left_out([groups[i] for i in index], asked.take(index))
                guess.middle[index], guess.spread[index] = left_out
                guesses[name] = guess
            found.append(_with_granted(guesses, ahead(numbers, asked.rows)))
        return found

    keys = [sample.key for sample in samples]
    known = [_targets(samples, guesses) for guesses in without(keys, [(keys, inputs), (range(len(samples)), inputs)])]
    new, recalibrations = None, {}
    if surveyed.far_tested:
        (guesses,) = without(surveyed.clusters, [(surveyed.clusters, unknown)])
        for name, (index, _) in fitted.items():
            clusters = [surveyed.clusters[i] for i in index]
            if len(set(clusters)) >= MIN_CLUSTERS:
                weights = shares(clusters, [samples[i].owner for i in index], MIN_CLUSTERS).weights
                measured = _measured(name, samples)[index]
                middle = guesses[name].middle[index]
                told = (middle, measured, inputs.types[index], weights, len(types), np.array(clusters))
                recalibrations[name] = learn(*told)
                guesses[name].middle[index] = learn_without(*told)
        new = _targets(samples, guesses)
    processes = {name: process for name, (_, process) in fitted.items()}
    return Trained(
        estimator=SizeRatio(types, numbers, processes, typical, recalibrations),
        without_key=known[0],
        without_sample=known[1],
        without_cluster=new,
    )


def _fit(
    name: str, samples: Sequence[Sample], inputs: Inputs, granted: Array, programs: Sequence[int]
) -> tuple[NDArray[np.int64], Process] | None:
    """The process of one quantity and the indexes of the samples that have it; None where these are too few."""
    measured = _measured(name, samples)
    index = np.flatnonzero(np.isfinite(measured))
    if len({samples[int(i)].key for i in index}) < MIN_MEASURED:
        return None
    targets = measured - granted if name == "time" else measured
    runs = np.array([float(QUANTITIES[name](sample)[1]) for sample in samples])[index]
    weights = shares(range(len(index)), [samples[i].owner for i in index.tolist()], LEAST).weights
    return index, fit(inputs.take(index), targets[index], runs, np.array(programs)[index].tolist(), weights)


def _measured(name: str, samples: Sequence[Sample]) -> Array:
    """A quantity of each sample, (n,), NaN where it wasn't measured."""
    return np.array([QUANTITIES[name](sample)[0] for sample in samples], np.float64)


def _inputs(asked: Sequence[Asked], numbers: Numbers, types: tuple[str, ...]) -> Inputs:
    vectors = unit(np.stack([job.vector for job in asked]))
    rows = np.stack([numbers.row(job.numbers, job.gpus) for job in asked])
    return Inputs(vectors, rows, np.array([types.index(job.type) for job in asked], np.int64), len(numbers.own))


def _levels(asked: Sequence[Asked], numbers: Numbers) -> tuple[Array, Array]:
    """Levels and usual levels of the jobs' quantities, of shape (n, q) each."""
    shape = (len(asked), len(numbers.quantities))
    levels = np.array([numbers.levels(job.numbers) for job in asked]).reshape(shape)
    return levels, np.array([numbers.usual(job.numbers) for job in asked]).reshape(shape)


def _with_granted(quantities: Mapping[str, Guess], granted: Array) -> dict[str, Guess]:
    """``quantities`` with ``granted`` (n,), the part of time that no process has learned."""
    time = quantities["time"]
    return {**quantities, "time": replace(time, middle=time.middle + granted)}


def _targets(asked: Sequence[Asked], quantities: Mapping[str, Guess]) -> Predictions:
    """Targets of the jobs that are ``asked`` about, from quantities."""
    time = quantities["time"]
    found = {"time": time}
    if "power" in quantities:
        power = quantities["power"]
        jobs = zip(asked, time.middle, power.middle, strict=True)
        energy = np.array([log_energy(t, p, job.gpus) for job, t, p in jobs])
        found["energy"] = Guess(energy, np.hypot(time.spread, power.spread))
    if "memory" in quantities:
        found["memory"] = quantities["memory"]
    return found
