"""One piece of recorded work under several policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from slurmcast.policy import registry
from slurmcast.policy.base import Moment, Offers
from slurmcast.simulate import engine, executors
from slurmcast.simulate.metrics import Metrics, measure
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.replay.trace import Trace, break_even_kappa, load
from slurmcast.simulate.workload import Schedule, Workload

NOISE = 0.3
"""Error of the predictions where none were recorded and nobody says."""
RECORDED = "recorded"
"""What really happened, among the policies."""

Progress = Callable[[int], object]
"""Told how many more jobs have started."""


@dataclass(frozen=True)
class Setup:
    """What is tried. Raises ValueError for a policy or an executor that isn't there."""

    policies: tuple[str, ...]
    kappas: tuple[float, ...] = (0.0,)
    """In 1/(GPU s kWh); policies that weigh by kappa run once with each."""
    weights: registry.Weights = field(default_factory=registry.Weights)
    """The other weights."""
    executor: str = "skip"
    noise: float | None = None
    """Error of predicted times (``simulate/noise.py``); None: the predictions that were made, else :data:`NOISE`."""
    unknown: float = 0.0
    """Share of jobs of which nothing is predicted."""
    seed: int = 0

    def __post_init__(self) -> None:
        executors.known(self.executor)
        self.runs()

    def runs(self) -> list[tuple[str, float | None]]:
        """Every policy with every kappa; None where it has no such weight."""
        kappas = {name: self.kappas if registry.known(name).knob == "kappa" else (None,) for name in self.policies}
        return [(name, kappa) for name in self.policies for kappa in kappas[name]]

    def predictions(self, trace: Trace) -> tuple[Workload, str]:
        """The work with the predictions that policies see, and where those are from, for people."""
        if trace.predicted and self.noise is None and not self.unknown:
            return trace.workload, "as they were made"
        noise = NOISE if self.noise is None else self.noise
        said = f"the truth with {noise:.0%} error, none for {self.unknown:.0%} of the jobs"
        return with_noise(trace.workload, noise, self.unknown, self.seed), said


@dataclass(frozen=True)
class Result:
    """What became of the work under one policy."""

    policy: str
    kappa: float | None
    metrics: Metrics
    schedule: Schedule

    @property
    def label(self) -> str:
        """Policy and kappa, for a plot."""
        return self.policy if self.kappa is None else f"{self.policy}, kappa {self.kappa:.3g}"


def compare(trace: Trace, setup: Setup, progress: Progress = lambda _: None) -> list[Result]:
    """What really happened, where that is known, and every run of ``setup``; each schedule is verified. Raises
    :class:`slurmcast.simulate.engine.SimulationError`."""
    (workload, _), cluster = setup.predictions(trace), trace.cluster
    found = []
    if trace.schedule is not None:
        found.append(Result(RECORDED, None, measure(workload, cluster, trace.schedule), trace.schedule))

    executor = executors.EXECUTORS[setup.executor]

    def counted(moment: Moment, offers: Offers) -> list[tuple[int, int]]:
        starts = executor.start(moment, offers)
        progress(len(starts))
        return starts

    for name, kappa in setup.runs():
        policy = registry.known(name).build(replace(setup.weights, kappa=kappa or 0.0))
        schedule = engine.run(workload, cluster, policy, replace(executor, start=counted))
        engine.verify(workload, cluster, schedule)
        found.append(Result(name, kappa, measure(workload, cluster, schedule), schedule))
    return found


def report(trace: Trace, setup: Setup, results: list[Result]) -> dict[str, Any]:
    """All that is said of a comparison, ready for JSON; what can't be told is None."""
    cluster, jobs = trace.cluster, len(trace.workload)
    rows = [{"policy": run.policy, "kappa": run.kappa, **asdict(run.metrics)} for run in results]
    for row in rows:
        if row["energy_unknown"] == jobs:
            row["energy_kwh"] = row["with_idle_kwh"] = None
    return {
        "jobs": jobs,
        "gpus": dict(zip(cluster.types, cluster.gpus.astype(int).tolist(), strict=True)),
        "load": _finite(load(trace.workload, cluster.gpus)),
        "break_even_kappa": _finite(break_even_kappa(trace.workload)),
        "predictions": setup.predictions(trace)[1],
        "setup": asdict(setup),
        "notes": list(trace.notes),
        "results": rows,
    }


def _finite(value: float) -> float | None:
    """What JSON can say."""
    return value if math.isfinite(value) else None
