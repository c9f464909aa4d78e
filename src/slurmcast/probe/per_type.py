"""Probes that stand alone for each target and GPU type: the paper's (``paper``) and two variants of ours.

``paper``: embedding in, seconds or kWh out. ``log``: their logarithms out, since times span orders of magnitude.
``log+numbers``: in addition the logarithms of the script's numbers in, which no embedding carries well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurmcast.probe.dense import Dense
from slurmcast.probe.estimator import Asked, Tensors, Trained
from slurmcast.probe.examples import Sample, TrainingError
from slurmcast.probe.features import Array, Numbers, choose_numbers
from slurmcast.probe.folds import FOLDS, folds
from slurmcast.probe.intervals import Guess, Predictions
from slurmcast.probe.targets import TARGETS

MIN_SAMPLES = 10
"""Samples of one GPU type (with the target measured) from which a network is trained for it."""


@dataclass(frozen=True)
class PerType:
    """The trained networks, by target and GPU type."""

    types: tuple[str, ...]
    numbers: Numbers | None
    """The columns beside the embedding; None where the embedding stands alone."""
    logarithmic: bool
    """Whether the networks give logarithms."""
    networks: Mapping[tuple[str, str], Dense]
    floors: Mapping[tuple[str, str], float]
    """A tenth of the smallest value seen: a network on a linear scale may claim less than nothing."""

    def predict(self, asked: Sequence[Asked]) -> Predictions:
        """See :class:`slurmcast.probe.estimator.Estimator`. Spreads are 1: one width of interval for all jobs."""
        inputs = _inputs(asked, self.numbers)
        logs = {target: np.full(len(asked), np.nan) for target, _ in self.networks}
        for (target, gpu_type), network in self.networks.items():
            index = np.array([job.type == gpu_type for job in asked])
            if index.any():
                values = network(inputs[index])
                floor = self.floors[target, gpu_type]
                logs[target][index] = values if self.logarithmic else np.log(np.maximum(values, floor))
        return {target: Guess(middle, np.ones(len(asked))) for target, middle in logs.items()}

    def parts(self) -> tuple[Tensors, dict[str, Any]]:
        """See :class:`slurmcast.probe.estimator.Estimator`."""
        tensors: Tensors = {}
        networks = []
        for number, ((target, gpu_type), network) in enumerate(self.networks.items()):
            floor = self.floors[target, gpu_type]
            networks.append({"target": target, "type": gpu_type, "floor": floor, "layers": len(network.layers)})
            for depth, (weights, bias) in enumerate(network.layers):
                tensors[f"{number}.{depth}.weight"] = weights
                tensors[f"{number}.{depth}.bias"] = bias
        numbers = None if self.numbers is None else self.numbers.to_settings()
        return tensors, {
            "types": list(self.types),
            "numbers": numbers,
            "logarithmic": self.logarithmic,
            "networks": networks,
        }


def restore(tensors: Tensors, settings: Mapping[str, Any]) -> PerType:
    """The estimator that :meth:`PerType.parts` described."""
    networks, floors = {}, {}
    for number, entry in enumerate(settings["networks"]):
        name = (entry["target"], entry["type"])
        floors[name] = float(entry["floor"])
        networks[name] = Dense(
            tuple((tensors[f"{number}.{n}.weight"], tensors[f"{number}.{n}.bias"]) for n in range(entry["layers"]))
        )
    numbers = None if settings["numbers"] is None else Numbers.from_settings(settings["numbers"])
    return PerType(tuple(settings["types"]), numbers, bool(settings["logarithmic"]), networks, floors)


def train(samples: Sequence[Sample], kind: str, seed: int, targets: Sequence[str]) -> Trained:
    """Train on ``samples`` for ``targets``, and predict each by networks that were trained without its fold of keys."""
    fold = folds([sample.key for sample in samples], np.random.default_rng(seed))
    without = {target: np.full(len(samples), np.nan) for target in targets}
    for number in range(FOLDS):
        out = np.flatnonzero(fold == number).tolist()
        partial = fit([samples[i] for i in np.flatnonzero(fold != number).tolist()], kind, seed, targets)
        for target, guess in partial.predict([samples[i] for i in out]).items():
            without[target][out] = guess.middle
    estimator = fit(samples, kind, seed, targets)
    if not estimator.networks:
        raise TrainingError(f"kind {kind!r} needs {MIN_SAMPLES} finished jobs on a GPU type at least; run more jobs")
    ones = np.ones(len(samples))
    return Trained(estimator, {target: Guess(middle, ones) for target, middle in without.items()}, None, None)


def fit(samples: Sequence[Sample], kind: str, seed: int, targets: Sequence[str]) -> PerType:
    """The networks alone, without left-out predictions."""
    from slurmcast.probe import network

    types = tuple(sorted({sample.type for sample in samples}))
    numbers = choose_numbers(samples) if kind == "log+numbers" else None
    logarithmic = kind != "paper"
    networks, floors = {}, {}
    for gpu_type in types:
        for target in targets:
            value = TARGETS[target]
            chosen = [s for s in samples if s.type == gpu_type and value(s) is not None]
            if len(chosen) < MIN_SAMPLES:
                continue
            logs = np.array([value(sample) for sample in chosen], np.float64)
            values = logs if logarithmic else np.exp(logs)
            networks[target, gpu_type] = network.train(_inputs(chosen, numbers), values, seed)
            floors[target, gpu_type] = float(np.exp(logs.min()) / 10)
    return PerType(types, numbers, logarithmic, networks, floors)


def _inputs(asked: Sequence[Asked], numbers: Numbers | None) -> Array:
    vectors = np.stack([job.vector for job in asked]).astype(np.float64)
    if numbers is None:
        return vectors
    return np.hstack([vectors, [numbers.row(job.numbers, job.gpus) for job in asked]])
