"""``slurmcast simulate replay``: recorded work under several policies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from slurmcast.console import Failure, as_json, emit, guarded
from slurmcast.policy.registry import POLICIES
from slurmcast.simulate.engine import Executor, SimulationError
from slurmcast.simulate.executors import skip
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.replay import gavel, show, swf
from slurmcast.simulate.replay.compare import compare, wanted
from slurmcast.simulate.replay.trace import Pools, Trace, TraceError, load, pools, sized

F = TypeVar("F", bound=Callable[..., Any])

EXECUTORS: dict[str, Executor] = {"paper": skip}
DEFAULT_POLICIES = "simple,easy,value,patient"
NOISE = 0.3
"""Error of the predictions where none were recorded and nobody says: about what a good predictor of jobs has."""
EVERYTHING = 1 << 40
"""GPUs of a cluster on which no job is too large."""


@dataclass(frozen=True)
class Options:
    """What all replays take."""

    policies: tuple[str, ...]
    kappas: tuple[float, ...]
    gamma: float
    executor: str
    noise: float | None
    unknown: float
    seed: int
    plot: Path | None
    as_json: bool


def options(command: F) -> F:
    """The options of all replays, gathered in ``options``."""

    @wraps(command)
    def gathered(*args: Any, policies: str, kappas: tuple[float, ...], **kwargs: Any) -> Any:
        names = tuple(name.strip() for name in policies.split(","))
        shared = {name: kwargs.pop(name) for name in Options.__dataclass_fields__ if name in kwargs}
        return command(*args, options=Options(names, kappas or (0.0,), **shared), **kwargs)

    percent = click.FloatRange(0, 100)
    decorators = [
        click.option(
            "--policies",
            default=DEFAULT_POLICIES,
            show_default=True,
            help=f"Names with commas between them, of: {', '.join(POLICIES)}.",
        ),
        click.option(
            "--kappa",
            "kappas",
            type=click.FloatRange(min=0),
            multiple=True,
            help="Weight of energy in 1/(GPU s kWh); give it several times to compare. Default: 0.",
        ),
        click.option("--gamma", type=click.FloatRange(min=0), default=0.0, help="Greedy's weight of a kWh, in s."),
        click.option(
            "--executor",
            type=click.Choice(list(EXECUTORS)),
            default="paper",
            show_default=True,
            help="How offers become starts.",
        ),
        click.option(
            "--noise",
            type=click.FloatRange(min=0, max=300),
            help="Error of predicted times in %; default: the predictions that were made, else 30.",
        ),
        click.option("--unknown", type=percent, default=0.0, help="Jobs of which nothing is predicted, in %."),
        click.option("--seed", type=int, default=0, show_default=True, help="Of all that is drawn at random."),
        click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the runs into this file."),
        as_json,
    ]
    result: Any = guarded(gathered)
    for decorator in reversed(decorators):
        result = decorator(result)
    return result  # type: ignore[no-any-return]


gpus_option = click.option(
    "--gpus",
    "gpus_text",
    required=True,
    metavar="TYPE=N,...",
    help="The cluster: GPUs of each type, the most powerful first, such as v100=36,p100=36,k80=36.",
)
load_option = click.option(
    "--load",
    "target",
    type=click.FloatRange(min=0, min_open=True),
    help="Make the cluster larger or smaller, in the proportions of --gpus, for this load (1: what it can just do).",
)


@click.group()
def replay() -> None:
    """What recorded jobs would have waited and used under other policies."""


@replay.command("swf", short_help="A log in the Standard Workload Format.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@gpus_option
@load_option
@click.option("--per-gpu", type=click.IntRange(min=1), default=1, show_default=True, help="Processors for one GPU.")
@click.option("--recorded-on", default="", metavar="TYPE", help="GPU type that the times hold for; default: the first.")
@click.option("--jobs", "count", type=click.IntRange(min=1), help="The first so many jobs only.")
@options
def replay_swf(
    options: Options,
    file: Path,
    gpus_text: str,
    target: float | None,
    per_gpu: int,
    recorded_on: str,
    count: int | None,
) -> None:
    """FILE: a log of the Parallel Workloads Archive, plain or .gz. Processors stand for GPUs."""
    log = _said(swf.read, file)
    first = log if count is None else swf.Log(log.jobs[:count])
    trace = _on(gpus_text, target, lambda chosen: swf.trace(first, chosen, per_gpu, recorded_on))
    _run(trace, options)


@replay.command("gavel", short_help="A trace of Gavel (OSDI '20).")
@click.argument("file", metavar="TRACE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--throughputs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Gavel's simulation_throughputs.json.",
)
@gpus_option
@load_option
@options
def replay_gavel(options: Options, file: Path, throughputs: Path, gpus_text: str, target: float | None) -> None:
    """TRACE: jobs with arrivals like those of Philly, and measured speeds on k80, p100 and v100."""
    lines, table = _said(gavel.read, file), _said(gavel.speeds, throughputs)
    _run(_on(gpus_text, target, lambda chosen: gavel.trace(lines, table, chosen, options.seed)), options)


def _said(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except TraceError as error:
        raise Failure(str(error)) from None


def _on(gpus_text: str, target: float | None, made: Callable[[Pools], Trace]) -> Trace:
    """The trace on the cluster of ``--gpus``, which ``--load`` makes larger or smaller."""
    chosen = _said(pools, gpus_text)
    if target is not None:
        boundless = replace(chosen, counts=dict.fromkeys(chosen.counts, EVERYTHING))
        chosen = _said(sized, chosen, _said(made, boundless).workload, target)
    trace: Trace = _said(made, chosen)
    return trace


def _run(trace: Trace, options: Options) -> None:
    try:
        asked = wanted(options.policies, options.kappas)
    except ValueError as error:
        raise Failure(f"--policies: {error}") from None
    recorded = trace.predicted and options.noise is None
    noise = NOISE if options.noise is None else options.noise / 100
    workload, cluster = trace.workload, trace.cluster
    if not recorded:
        workload = with_noise(workload, noise, options.unknown / 100, options.seed)
    executor, label = EXECUTORS[options.executor], f"{len(workload)} jobs, {len(asked)} runs"
    with click.progressbar(length=len(workload) * len(asked), label=label, file=sys.stderr) as bar:
        try:
            found = list(compare(workload, cluster, asked, executor, options.gamma, bar.update))
        except SimulationError as error:
            raise Failure(str(error)) from None
    answer = {
        "jobs": len(workload),
        "gpus": dict(zip(cluster.types, cluster.gpus.astype(int).tolist(), strict=True)),
        "load": load(workload, cluster.gpus),
        "predictions": "as they were made" if recorded else {"noise": noise, "unknown": options.unknown / 100},
        "executor": options.executor,
        "seed": options.seed,
        "notes": list(trace.notes),
        "results": [{"policy": run.policy, "kappa": run.kappa, **asdict(run.metrics)} for run in found],
    }
    emit(answer, options.as_json, show.replayed)
