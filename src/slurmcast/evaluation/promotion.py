"""Whether a newly trained kind of model may take the place of the one in use: a test on jobs that neither has seen.

What is compared is what users would get: the probe's estimates, and history or prior where it says nothing. Each job's
loss is the pinball loss of p10, p50 and p90 in logarithms, averaged over time and energy where both were measured; an
estimate that isn't there counts as the quantiles of all older jobs on the GPU type.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from slurmcast.drift.changes import Changes
from slurmcast.drift.figures import TARGETS, Row, interval, table
from slurmcast.evaluation.cases import Case, checked, split
from slurmcast.evaluation.estimators import Estimator, as_given, by_history, by_model, by_prior
from slurmcast.evaluation.metrics import loss
from slurmcast.model import Estimate, Interval
from slurmcast.probe.choice import learned_until
from slurmcast.probe.model import Model
from slurmcast.probe.prior import Site
from slurmcast.store.promises import Promise

SHARE = 0.8
"""Share of the jobs, the oldest, that the candidate learns from where too few have ended since the last model."""
ENOUGH = 20
"""Jobs since the model in use was trained from which these alone are the test."""

Train = Callable[[Sequence[Case], str, Changes], Model]
"""Trains a model of a kind on cases, with the changes of partitions that it is to heed. Raises
:class:`slurmcast.probe.TrainingError`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to promote, and the sentence that says why or why not."""

    promote: bool
    reason: str
    tested: int
    """Jobs of the test."""
    loss: float
    """Mean loss of the candidate's estimates; less is better."""
    other_loss: float
    """The same without the candidate."""
    rows: tuple[Row, ...] = ()
    """How the candidate's estimates came true."""
    changes: Changes = field(default_factory=dict)
    """The changes that it heeded."""


def trial(
    ordered: Sequence[Case],
    kind: str,
    train: Train,
    in_use: Model | None,
    site: Site,
    type_of: Mapping[str, str],
    changes: Changes,
    drifted: float | None = None,
) -> Verdict:
    """Test a model of ``kind`` against ``in_use`` (None: there is none) on the newest of the ``ordered`` jobs.

    * No model in use: the candidate, trained on the older jobs, has to be better than what is given without a model.
    * Enough jobs have ended since the one in use was trained: these are the test, or the newest fifth of all where they
      are more than that. The one in use stands as it is, the candidate is trained on all jobs before the test.
    * Else the one in use has seen what would test it. A model of its kind, trained on the same older jobs as the
      candidate, stands for it. Where the candidate is of that kind too, the two are one and the same, and the final one
      will only have learned from more: it has to be better than what is given without a model.

    Where there were ``changes`` of partitions there are two candidates, one that heeds them and one that doesn't: the
    better one stands. ``drifted``: estimates of the one in use have drifted from then on, in Unix seconds. Every second
    job since is then the test. If it were all the newest, candidates would know next to nothing of what is new.

    Raises :class:`slurmcast.evaluation.cases.TooFewJobs` and TrainingError.
    """
    which = "newest jobs"
    since = [case for case in ordered if in_use is not None and case.ended > learned_until(in_use)]
    if in_use is not None and len(since) >= ENOUGH:
        newest = since[-max(ENOUGH, round((1 - SHARE) * len(ordered))) :]
        if drifted is not None:
            newest = [case for case in since if case.ended > drifted][1::2]
            which = "jobs since the change, every second one,"
        tested = {id(case) for case in newest}
        older, newer = checked([case for case in ordered if id(case) not in tested], newest)
        other: Model | None = in_use
        against = f"the model in use ({in_use.version})"
    else:
        older, newer = split(ordered, SHARE)
        other = train(older, in_use.kind, changes) if in_use is not None and in_use.kind != kind else None
        against = f"a model of the kind in use, {other.kind}, trained on the same jobs" if other else "no model"
    prior, history = by_prior(site, type_of), by_history(older, site)

    def given(model: Model | None) -> Estimator:
        return as_given(prior, history, by_model(model) if model is not None else None)

    fallback = marginals(older)
    theirs = losses(newer, [*map(given(other), newer)], fallback)

    def candidate(heeded: Changes) -> Verdict:
        made = [*map(given(train(older, kind, heeded)), newer)]
        cases = zip(newer, made, strict=True)
        rows = table([Promise(case.key, "", estimate, case.label.outcome) for case, estimate in cases])
        found = verdict(losses(newer, made, fallback), theirs, against, which)
        heeding = f", knowing that {' and '.join(sorted(heeded))} changed" if heeded else ""
        return replace(found, reason=found.reason + heeding, rows=rows, changes=heeded)

    return min(map(candidate, (changes, {}) if changes else ({},)), key=lambda found: found.loss)


def verdict(ours: Sequence[float], theirs: Sequence[float], against: str, which: str = "newest jobs") -> Verdict:
    """The candidate may be worse by no more than the standard error of the mean difference, job by job."""
    differences = np.subtract(ours, theirs)
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences))
    promote = mean <= error if against != "no model" else mean < 0
    how = "better than" if mean < 0 else "as good as" if promote else "worse than"
    figures = f"mean loss {fmean(ours):.3f} against {fmean(theirs):.3f}, difference {mean:+.3f} +- {error:.3f}"
    reason = f"{how} {against} on the {len(differences)} {which} ({figures})"
    return Verdict(promote, reason, len(differences), fmean(ours), fmean(theirs))


def marginals(cases: Sequence[Case]) -> dict[tuple[str, str], Interval]:
    """p10, p50 and p90 of all ``cases`` by GPU type and target; of all types under an empty type."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in cases:
        for target in TARGETS:
            if math.isfinite(case.truth(target)):
                values[case.type, target].append(case.truth(target))
                values["", target].append(case.truth(target))
    return {
        group: Interval(*(float(q) for q in np.exp(np.quantile(logs, (0.1, 0.5, 0.9)))))
        for group, logs in values.items()
    }


def losses(
    cases: Sequence[Case], estimates: Sequence[Estimate], fallback: Mapping[tuple[str, str], Interval]
) -> list[float]:
    """The loss of each case; see the module."""
    found = []
    for case, made in zip(cases, estimates, strict=True):
        parts = []
        for target in TARGETS:
            said = interval(made, target) or fallback.get((case.type, target)) or fallback.get(("", target))
            if math.isfinite(case.truth(target)) and said is not None:
                parts.append(loss(case.truth(target), said))
        found.append(fmean(parts))
    return found
