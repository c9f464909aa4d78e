"""The rivals: each is trained on known runs and guesses the time and energy of others that it hasn't seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_extraction import DictVectorizer

from predict.data import Run
from slurmcast.config import ProbeConfig
from slurmcast.evaluation.words import WordRidge
from slurmcast.probe import Example, Model, Site, TrainingError, per_type, prior, train
from slurmcast.probe.estimator import Query
from slurmcast.probe.examples import merged
from slurmcast.probe.intervals import Predictions

Array = NDArray[np.float64]
TARGETS = ("time", "energy")


@dataclass(frozen=True)
class Case:
    """A run with the vector of its text."""

    run: Run
    vector: NDArray[np.float32]

    @property
    def example(self) -> Example:
        """The case as what a probe learns from."""
        return self.run.example(self.vector)


@dataclass(frozen=True)
class Guesses:
    """Logarithms of s and kWh, each of shape (n, 2); NaN where there is none."""

    middle: Array
    low: Array | None = None
    """Ends of the 80 % interval: NaN where the model says that it doesn't know, None where it has no intervals."""
    high: Array | None = None


Rival = Callable[[Sequence[Case], Sequence[Case], int], Guesses]
"""Known cases, cases asked for, seed."""


def truths(cases: Sequence[Case]) -> Array:
    """Logarithms of what was measured, (n, 2), NaN where nothing was."""
    return np.log([[c.run.time_s, np.nan if c.run.energy_kwh is None else c.run.energy_kwh] for c in cases])


def ours(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:
    """The default probe with its intervals. Its middle is given even where it would say ``unknown``."""
    examples = [case.example for case in known]
    try:
        model = train(examples, ProbeConfig(seed=seed), encoder="benchmark").model
    except TrainingError:
        nothing = np.full((len(asked), 2), np.nan)
        return Guesses(nothing, nothing, nothing)
    middle = np.full((len(asked), 2), np.nan)
    index = [i for i, case in enumerate(asked) if case.run.gpu_type in model.estimator.types]
    queries = [Query(e.vector, e.numbers, e.gpus, e.type) for e in (asked[i].example for i in index)]
    bare = model.estimator.predict(queries)
    middle[index] = _columns(bare, len(index))
    ends = np.array([_ends(model, case.example) for case in asked])
    return Guesses(middle, ends[:, :, 0], ends[:, :, 1])


def _columns(found: Predictions, count: int) -> Array:
    nothing = np.full(count, np.nan)
    return np.column_stack([found[target].middle if target in found else nothing for target in TARGETS])


def _ends(model: Model, asked: Example) -> list[tuple[float, float]]:
    (estimate,) = model.predict(asked.vector, asked.numbers, {asked.partition: asked.gpus}, key=asked.key)
    return [
        (np.nan, np.nan) if interval is None else (float(np.log(interval.p10)), float(np.log(interval.p90)))
        for interval in (estimate.time_s, estimate.energy_kwh)
    ]


def paper(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:
    """The paper's networks (appendix A.2) on the same vectors."""
    estimator = per_type.fit(merged(case.example for case in known), "paper", seed, TARGETS)
    queries = [Query(e.vector, e.numbers, e.gpus, e.type) for e in (case.example for case in asked)]
    found = estimator.predict(queries)
    return Guesses(_columns(found, len(asked)))


def tfidf_ridge(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:  # noqa: ARG001
    """Words and numbers of the text, weighed by rarity, and a ridge regression for each type and target."""
    (texts, types), (new, new_types) = (
        zip(*((case.run.reading.text, case.run.gpu_type) for case in part), strict=True) for part in (known, asked)
    )
    return Guesses(WordRidge(texts, types, truths(known)).predict(new, new_types))


def knn5(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:  # noqa: ARG001
    """The geometric mean of the five runs on the type whose texts have the nearest vectors."""

    def fit(part: Sequence[Case], truth: Array) -> Callable[[Sequence[Case]], Array]:
        vectors = np.stack([case.vector for case in part])

        def nearest(case: Case) -> float:
            return float(truth[np.argsort(((vectors - case.vector) ** 2).sum(axis=1), kind="stable")[:5]].mean())

        return lambda cases: np.array([nearest(case) for case in cases])

    return Guesses(_each_type(known, asked, fit))


def handmade(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:
    """Features that a person wrote down (workload, logarithms of numbers, optimizer, GPU type) and extra trees."""
    columns = DictVectorizer(sparse=False)
    table = columns.fit_transform([{**case.run.handmade, "type": case.run.gpu_type} for case in known])
    rows = columns.transform([{**case.run.handmade, "type": case.run.gpu_type} for case in asked])
    truth, middle = truths(known), np.full((len(asked), 2), np.nan)
    for column in range(2):
        there = np.isfinite(truth[:, column])
        if there.any():
            trees = ExtraTreesRegressor(300, random_state=seed).fit(table[there], truth[there, column])
            middle[:, column] = trees.predict(rows)
    return Guesses(middle)


def mean(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:  # noqa: ARG001
    """The geometric mean of the same workload on the type; of the type where the workload is new."""

    def fit(part: Sequence[Case], truth: Array) -> Callable[[Sequence[Case]], Array]:
        by_program: dict[str, list[float]] = defaultdict(list)
        for case, value in zip(part, truth, strict=True):
            by_program[case.run.program].append(value)
        return lambda cases: np.array([np.mean(by_program.get(case.run.program, truth)) for case in cases])

    return Guesses(_each_type(known, asked, fit))


def from_limit(known: Sequence[Case], asked: Sequence[Case], seed: int) -> Guesses:  # noqa: ARG001
    """The product's prior: what can be said before anything has run, from the script's time limit and published ratios
    between the GPU types."""
    types = sorted({case.run.gpu_type for case in (*known, *asked)})
    site = Site(dict(zip(types, types, strict=True)), {})
    middle, low, high = (np.full((len(asked), 2), np.nan) for _ in range(3))
    for index, case in enumerate(asked):
        estimates = prior(case.run.reading.time_limit_s, dict.fromkeys(types, case.run.gpus), site)
        estimate = estimates[types.index(case.run.gpu_type)]
        for column, said in enumerate((estimate.time_s, estimate.energy_kwh)):
            if said is not None:
                middle[index, column], low[index, column], high[index, column] = np.log((said.p50, said.p10, said.p90))
    return Guesses(middle, low, high)


def _each_type(
    known: Sequence[Case],
    asked: Sequence[Case],
    fit: Callable[[Sequence[Case], Array], Callable[[Sequence[Case]], Array]],
) -> Array:
    """Guesses (n, 2) of models that are fitted for each GPU type and target apart."""
    truth, middle = truths(known), np.full((len(asked), 2), np.nan)
    for gpu_type in {case.run.gpu_type for case in asked}:
        out = [i for i, case in enumerate(asked) if case.run.gpu_type == gpu_type]
        for column in range(2):
            own = [i for i, c in enumerate(known) if c.run.gpu_type == gpu_type and np.isfinite(truth[i, column])]
            if len(own) > 1:
                model = fit([known[i] for i in own], truth[own, column])
                middle[out, column] = model([asked[i] for i in out])
    return middle


RIVALS: Mapping[str, Rival] = {
    "ours": ours,
    "paper": paper,
    "tfidf_ridge": tfidf_ridge,
    "knn5": knn5,
    "handmade": handmade,
    "mean": mean,
    "prior": from_limit,
}
