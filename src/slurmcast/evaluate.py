"""``slurmcast evaluate``: how good each kind of estimate is on the site's newest jobs, learned from the older ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal

from slurmcast.config import Config
from slurmcast.drift.figures import TARGETS
from slurmcast.encoder.kinds import name_of
from slurmcast.evaluation import estimators
from slurmcast.evaluation.cases import Case, TooFewJobs, site, split
from slurmcast.evaluation.metrics import figures
from slurmcast.extras import install
from slurmcast.probe.choice import learned_until
from slurmcast.probe.examples import TrainingError
from slurmcast.probe.model import Model
from slurmcast.probe.prior import Site
from slurmcast.probe.registry import Registry
from slurmcast.train import TrainError, in_use, known_jobs, opened, said

Found = tuple[str, estimators.Estimator | str, Sequence[Case]]
"""Name, the estimator or why there is none, and the jobs that it is tested on."""


@said
def evaluate(config: Config, share: float = 0.8, paper: bool = False) -> dict[str, Any]:
    """Figures of every estimator on the newest jobs; the ``share`` of the jobs that ended first is learned from.

    Raises :class:`TrainError`, where there are too few jobs for example.
    """
    encoder = name_of(config.encoder)
    with opened(config) as store:
        known, texts = known_jobs(config, store), store.scripts()
    ordered = known.cases
    try:
        older, newer = split(ordered, share)
    except TooFewJobs as error:
        raise TrainError(str(error)) from None
    where, type_of = site(config, ordered)
    keys = {case.key for case in older}
    answer: dict[str, Any] = {
        "older": len(older),
        "newer": len(newer),
        "since": newer[0].ended,
        "repeated": sum(case.key in keys for case in newer) / len(newer),
        "results": [],
        "left_out": {},
        "impossible": known.impossible,
    }
    model = in_use(Registry(config.paths.models), encoder, ordered)
    for name, estimator, tested in _all(config, encoder, older, newer, texts, where, type_of, model, paper):
        if isinstance(estimator, str):
            answer["left_out"][name] = estimator
            continue
        made = [estimator(case) for case in tested]
        for target in TARGETS:
            row = figures(tested, made, target)
            if row["jobs"]:
                answer["results"].append({"estimate": name, "target": target, **row})
    return answer


def _all(
    config: Config,
    encoder: str,
    older: Sequence[Case],
    newer: Sequence[Case],
    texts: Mapping[str, str],
    where: Site,
    type_of: Mapping[str, str],
    model: Model | None,
    paper: bool,
) -> Iterator[Found]:
    prior, history = estimators.by_prior(where, type_of), estimators.by_history(older, where)
    yield "prior", prior, newer
    yield "time limit", estimators.by_limit, newer
    yield "user's mean", estimators.by_user(older), newer
    yield "history", history, newer
    yield "5 nearest", estimators.by_neighbours(older), newer
    yield "TF-IDF + ridge", _words(older, texts), newer

    def trained(kind: Literal["paper", "size+ratio"]) -> estimators.Estimator | str:
        return _trained(older, replace(config, probe=replace(config.probe, kind=kind)), encoder, type_of)

    if not paper:
        yield "paper", "asked for by --paper", newer
    elif find_spec("torch") is None:
        yield "paper", f"needs torch: {install('train')}", newer
    else:
        yield "paper", trained("paper"), newer
    ours = trained("size+ratio")
    yield "size+ratio", ours, newer
    if not isinstance(ours, str):
        yield "as given", estimators.as_given(prior, history, ours), newer
    if model is None:
        yield "in use", "no model is in use", newer
        return
    unseen = [case for case in newer if case.ended > learned_until(model)]
    seen = f"it has learned from all of these jobs ({model.version})"
    yield "in use", estimators.by_model(model) if unseen else seen, unseen


def _words(older: Sequence[Case], texts: Mapping[str, str]) -> estimators.Estimator | str:
    if not any(case.label.origin.script_sha256 in texts for case in older):
        return "needs the scripts' text, which is kept only with daemon.keep_scripts = true"
    if find_spec("sklearn") is None:
        return "needs scikit-learn: pip install scikit-learn"
    return estimators.by_words(older, texts)


def _trained(
    older: Sequence[Case], config: Config, encoder: str, type_of: Mapping[str, str]
) -> estimators.Estimator | str:
    try:
        return estimators.by_model(estimators.trained(older, config.probe, encoder, type_of))
    except TrainingError as error:
        return str(error)
