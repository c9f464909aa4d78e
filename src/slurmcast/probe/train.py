"""From finished jobs to a model with intervals and figures."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.config import ProbeConfig
from slurmcast.probe import per_type, size_ratio
from slurmcast.probe.estimator import Trained
from slurmcast.probe.examples import Example, Sample, TrainingError, latest, merged
from slurmcast.probe.fair_share import shares
from slurmcast.probe.features import unit
from slurmcast.probe.figures import figures, of_new_scripts, residuals
from slurmcast.probe.intervals import LEAST, Ends, Guess, Predictions, calibrate
from slurmcast.probe.model import Model, key_mark
from slurmcast.probe.scatter import factors
from slurmcast.probe.targets import truths
from slurmcast.probe.territory import Survey, survey
from slurmcast.probe.threads import one_thread

log = logging.getLogger(__name__)

MIN_KEYS = 12
"""Different jobs from which a probe is trained: with fewer, no interval could be calibrated."""
MIN_TYPE_KEYS = 3
"""Different jobs on a GPU type from which the probe speaks of it."""


@dataclass(frozen=True)
class TrainingResult:
    """A model, not yet in the registry, and what its training measured (also in ``model.figures``)."""

    model: Model
    figures: Mapping[str, Any]


def train(
    examples: Iterable[Example],
    config: ProbeConfig,
    *,
    encoder: str,
    partitions: Mapping[str, str] | None = None,
) -> TrainingResult:
    """Train a probe of ``config.kind`` on ``examples``, the oldest first. The same examples, kind and seed give the
    same model on the same machine.

    ``encoder``: name of the encoder that made the vectors. ``partitions``: GPU types of partitions beside those of the
    examples, so that a new partition of a known type has estimates. Raises :class:`TrainingError`.
    """
    with one_thread():
        return _train(list(examples), config, encoder, partitions or {})


def _train(examples: list[Example], config: ProbeConfig, encoder: str, partitions: Mapping[str, str]) -> TrainingResult:
    begun = time.monotonic()
    samples = _usable(merged(examples))
    keys = [sample.key for sample in samples]
    vectors, owners = unit(np.stack([sample.vector for sample in samples])), [sample.owner for sample in samples]
    surveyed = survey(vectors, keys, config.kind == "size+ratio", owners)
    trained = (
        size_ratio.train(samples, surveyed, config.seed, config.targets)
        if config.kind == "size+ratio"
        else per_type.train(samples, config.kind, config.seed, config.targets)
    )
    calibration, scatter = _calibration(samples, trained, surveyed)
    if calibration.keys().isdisjoint({"near/time", "far/time"}):
        raise TrainingError("too few finished jobs to calibrate intervals; run more jobs")
    territory = surveyed.territory
    found = {
        "kind": config.kind,
        "examples": len(examples),
        "keys": len(set(keys)),
        "clusters": len(set(surveyed.clusters)),
        "seconds": round(time.monotonic() - begun, 3),
        **figures(samples, trained.without_key, surveyed.clusters, config.seed),
    }
    if trained.without_cluster is not None:
        found["new_scripts"] = of_new_scripts(samples, trained.without_cluster)
    model = Model(
        kind=config.kind,
        encoder=encoder,
        dimensions=len(samples[0].vector),
        partitions={**partitions, **{example.partition: example.type for example in examples}},
        estimator=trained.estimator,
        territory=territory,
        powers=_powers(samples),
        keys=_ran_on(samples),
        calibration=calibration,
        scatter=scatter,
        figures=found,
    )
    return TrainingResult(model, found)


def _usable(samples: list[Sample]) -> list[Sample]:
    """The samples that a probe is trained on."""
    by_type: dict[str, set[str]] = {}
    for sample in samples:
        by_type.setdefault(sample.type, set()).add(sample.key)
    _enough({sample.key for sample in samples})
    thin = {name for name, keys in by_type.items() if len(keys) < MIN_TYPE_KEYS}
    if thin:
        log.warning("fewer than %d jobs have finished on %s: not learned yet", MIN_TYPE_KEYS, ", ".join(sorted(thin)))
    kept = [sample for sample in samples if sample.type not in thin]
    if len(kept) > size_ratio.MAX_SAMPLES:
        log.info("of %d samples the latest %d are learned from", len(kept), size_ratio.MAX_SAMPLES)
        kept = latest(kept, size_ratio.MAX_SAMPLES)
    _enough({sample.key for sample in kept})
    return kept


def _enough(keys: set[str]) -> None:
    if len(keys) < MIN_KEYS:
        raise TrainingError(f"{len(keys)} different jobs have finished, a probe needs {MIN_KEYS}; run more jobs first")


def _ran_on(samples: Iterable[Sample]) -> dict[str, frozenset[str]]:
    """GPU types of each job, by its mark."""
    types: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        types[key_mark(sample.key)].add(sample.type)
    return {mark: frozenset(found) for mark, found in types.items()}


def _powers(samples: Iterable[Sample]) -> dict[str, tuple[float, float]]:
    """By GPU type the least and the largest power of one GPU that was measured, in W."""
    found: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.log_power is not None:
            found[sample.type].append(math.exp(sample.log_power))
    return {gpu_type: (min(powers), max(powers)) for gpu_type, powers in found.items()}


def _calibration(
    samples: list[Sample], trained: Trained, surveyed: Survey
) -> tuple[dict[str, Ends], dict[str, dict[int, float]]]:
    """Ends of intervals for the classes of jobs and all targets, where there is enough to tell: by runs that are of the
    class when they are left out, but *once* by those of *near*. And what known programs' spreads are multiplied by."""
    types, keys, owners = zip(*((sample.type, sample.key, sample.owner) for sample in samples), strict=True)
    measured = truths(samples)
    count = Counter(keys)
    again = np.array([count[key] > 1 for key in keys])
    near = (trained.without_key, keys, surveyed.near)
    known = trained.estimator.predict(samples)
    left_out = trained.without_key
    as_near = {name: Guess(left_out[name].middle, of.spread) for name, of in known.items() if name in left_out}
    classes: Mapping[str, tuple[Predictions | None, Sequence[Hashable] | None, NDArray[np.bool_]]] = {
        "seen": near if trained.without_sample is None else (trained.without_sample, None, again),
        "once": (as_near, keys, surveyed.near),
        "near": near,
        "far": (trained.without_cluster, surveyed.clusters, surveyed.far),
    }
    weights = shares(keys, owners, LEAST).weights
    found: dict[str, Ends] = {}
    scatter: dict[str, dict[int, float]] = {}
    for name, (predictions, groups, tested) in classes.items():
        for target, guess in (predictions or {}).items():
            left = np.where(tested, residuals(measured[target], guess), np.nan)
            of = range(len(samples)) if groups is None else groups
            if name != "far":
                scatter[f"{name}/{target}"], without = factors(left, surveyed.clusters, of, weights)
                left = left / without
            ends = calibrate(left, types, groups, owners)
            if ends is not None:
                found[f"{name}/{target}"] = ends
    return found, scatter
