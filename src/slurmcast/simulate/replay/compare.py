"""One piece of work under several policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slurmcast.policy import registry
from slurmcast.policy.base import Moment, Offers
from slurmcast.simulate import engine
from slurmcast.simulate.metrics import Metrics, measure
from slurmcast.simulate.workload import Cluster, Schedule, Workload

Progress = Callable[[int], None]
"""Told how many more jobs have started."""


@dataclass(frozen=True)
class Run:
    """What became of the work under one policy."""

    policy: str
    kappa: float | None
    """None where the policy has no such weight."""
    metrics: Metrics
    schedule: Schedule


def wanted(policies: Sequence[str], kappas: Sequence[float]) -> list[tuple[str, float | None]]:
    """Every policy once, those that weigh by kappa once for each. Raises ValueError for an unknown name."""
    return [
        (name, kappa) for name in policies for kappa in (kappas if registry.known(name).knob == "kappa" else (None,))
    ]


def compare(
    workload: Workload,
    cluster: Cluster,
    runs: Sequence[tuple[str, float | None]],
    executor: engine.Executor,
    gamma: float = 0.0,
    progress: Progress = lambda _: None,
) -> Iterator[Run]:
    """Each of ``runs`` (policy, kappa) in turn; every schedule is verified. Raises
    :class:`slurmcast.simulate.engine.SimulationError`."""

    def counted(moment: Moment, offers: Offers) -> list[tuple[int, int]]:
        starts = executor(moment, offers)
        progress(len(starts))
        return starts

    for name, kappa in runs:
        schedule = engine.run(workload, cluster, registry.named(name, kappa or 0.0, gamma), counted)
        engine.verify(workload, cluster, schedule)
        yield Run(name, kappa, measure(workload, cluster, schedule), schedule)
