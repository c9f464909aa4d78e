"""What is compared: each makes an estimate of a finished job from older ones, on the GPU type that it ran on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

from slurmcast.config import ProbeConfig
from slurmcast.drift.changes import apart
from slurmcast.drift.figures import TARGETS
from slurmcast.evaluation.cases import Case
from slurmcast.labels import examples, runs
from slurmcast.model import Estimate, Interval, Source
from slurmcast.probe.choice import choose
from slurmcast.probe.features import squared_distances, unit
from slurmcast.probe.history import history
from slurmcast.probe.model import Model
from slurmcast.probe.prior import Site, prior
from slurmcast.probe.train import train

Estimator = Callable[[Case], Estimate]
NEIGHBOURS = 5


def by_prior(site: Site, type_of: Mapping[str, str]) -> Estimator:
    """The product's prior. ``type_of``: GPU type by partition."""

    def estimate(case: Case) -> Estimate:
        reading = case.label.reading
        named = {type_of[name] for name in reading.partitions if name in type_of and not reading.opted_in}
        limit = reading.time_limit_s
        found = prior(limit, dict.fromkeys(site.types, case.gpus), site, named=named, shared=case.shared)
        return _of_type(found, case)

    return estimate


def by_limit(case: Case) -> Estimate:
    """The user's own time limit taken for the time."""
    limit = case.label.reading.time_limit_s
    return _points(case, {"time": math.log(limit)} if limit else {})


def by_history(known: Sequence[Case], site: Site) -> Estimator:
    """The product's history, from ``known`` jobs."""
    by_user = defaultdict(list)
    for case in known:
        by_user[case.label.origin.uid].append(case.label)

    def estimate(case: Case) -> Estimate:
        past = runs(by_user[case.label.origin.uid], case.label.origin)
        counts = dict.fromkeys(site.types, case.gpus)
        return _of_type(history(case.label.reading.numbers, counts, site.types, past, shared=case.shared), case)

    return estimate


def by_user(known: Sequence[Case]) -> Estimator:
    """The geometric mean of the same user's jobs on the type."""
    values: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for case in known:
        for target in TARGETS:
            if math.isfinite(case.truth(target)):
                values[case.label.origin.uid, case.type, target].append(case.truth(target))

    def estimate(case: Case) -> Estimate:
        own = {target: values.get((case.label.origin.uid, case.type, target)) for target in TARGETS}
        return _points(case, {target: fmean(logs) for target, logs in own.items() if logs})

    return estimate


def by_neighbours(known: Sequence[Case]) -> Estimator:
    """The geometric mean of the jobs on the type whose texts have the nearest vectors."""
    by_type: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in known:
        for target in TARGETS:
            if math.isfinite(case.truth(target)):
                by_type[case.type, target].append(case)
    vectors = {group: unit(np.stack([case.vector for case in found])) for group, found in by_type.items()}

    def estimate(case: Case) -> Estimate:
        means = {}
        for target in TARGETS:
            if found := by_type.get((case.type, target)):
                away = squared_distances(unit(case.vector[None, :]), vectors[case.type, target])[0]
                nearest = np.argsort(away, kind="stable")[:NEIGHBOURS]
                means[target] = fmean(found[i].truth(target) for i in nearest)
        return _points(case, means)

    return estimate


def by_words(known: Sequence[Case], texts: Mapping[str, str]) -> Estimator:
    """TF-IDF of the scripts' words and a ridge regression for each type and target (scikit-learn).

    ``texts``: scripts by their sha256; a case without one is unknown. Raises ImportError without scikit-learn.
    """
    from slurmcast.evaluation.words import WordRidge

    def text(case: Case) -> str | None:
        script = texts.get(case.label.origin.script_sha256)
        if script is None:
            return None
        numbers = " ".join(f"{name} {value:g}" for name, value in sorted(case.label.reading.numbers.items()))
        return f"{script}\n{numbers}"

    with_text = [(case, found) for case in known if (found := text(case)) is not None]
    truth = np.array([[case.truth(target) for target in TARGETS] for case, _ in with_text])
    model = WordRidge([found for _, found in with_text], [case.type for case, _ in with_text], truth)

    def estimate(case: Case) -> Estimate:
        found = text(case)
        if found is None:
            return _points(case, {})
        logs = zip(TARGETS, model.predict([found], [case.type])[0].tolist(), strict=True)
        return _points(case, {target: log for target, log in logs if math.isfinite(log)})

    return estimate


def by_model(model: Model) -> Estimator:
    """A trained probe alone."""

    def estimate(case: Case) -> Estimate:
        where = {case.label.outcome.partition: case.gpus}
        numbers = case.label.reading.numbers
        (found,) = model.predict(case.vector, numbers, where, key=case.key, shared=case.shared)
        return found

    return estimate


def as_given(prior: Estimator, history: Estimator, probe: Estimator | None) -> Estimator:
    """What users get: prior, history or probe, where ``history`` rests on jobs that ``probe`` has learned from."""

    def estimate(case: Case) -> Estimate:
        guessed = () if probe is None else (probe(case),)
        (found,) = choose((prior(case),), (history(case),), guessed, news=False)
        return found

    return estimate


def trained(
    known: Sequence[Case],
    config: ProbeConfig,
    encoder: str,
    type_of: Mapping[str, str],
    changes: Mapping[str, float] | None = None,
) -> Model:
    """A probe trained on ``known`` jobs, with ``changes`` of partitions (:mod:`slurmcast.drift.changes`). Raises
    :class:`slurmcast.probe.TrainingError`."""
    labels = apart([case.label for case in known], changes or {})
    vectors = {case.label.text_key: case.vector for case in known}
    result = train(examples(labels, vectors), config, encoder=encoder, partitions=type_of)
    return result.model


def _of_type(found: Sequence[Estimate], case: Case) -> Estimate:
    return next(estimate for estimate in found if estimate.partition == case.type)


def _points(case: Case, logs: Mapping[str, float]) -> Estimate:
    """An estimate without an interval."""
    time, energy = (
        Interval(math.exp(logs[t]), math.exp(logs[t]), math.exp(logs[t])) if t in logs else None for t in TARGETS
    )
    return Estimate(case.type, case.gpus, time, energy, Source.PRIOR if time else Source.UNKNOWN)
