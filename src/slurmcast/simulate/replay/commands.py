"""``slurmcast simulate replay``: recorded work under several policies. Thin, and slow imports wait until needed."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slurmcast.config import Config
from slurmcast.console import Failure, Finite, as_json, emit, guarded, reads, time_option
from slurmcast.model import DAY_S
from slurmcast.policy.lookahead import LONGEST_WAIT_S
from slurmcast.policy.registry import POLICIES, Weights, names
from slurmcast.simulate.executors import known
from slurmcast.simulate.replay.trace import Pools, Trace, pools
from slurmcast.times import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_POLICIES = "simple,easy,value,patient,lookahead"
DAYS = 30
"""A history goes back that far."""

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
gpus_option = click.option(
    "--gpus",
    "found",
    required=True,
    callback=reads(pools),
    metavar="TYPE=N,...",
    help="The cluster: GPUs of each type, the most powerful first, such as v100=36,p100=36,k80=36.",
)
load_option = click.option(
    "--load",
    "target",
    type=Finite(min=0, min_open=True),
    help="Make the cluster larger or smaller, in the proportions of --gpus, for this load (1: what it can just do).",
)


def compared(command: F) -> F:
    """Give a command that makes a trace the options of all replays, and let it print the comparison."""

    @wraps(command)
    def inner(
        *args: Any,
        policies: tuple[str, ...],
        kappas: tuple[float, ...],
        gamma: float,
        longest_wait_d: float,
        plot: Path | None,
        as_json: bool,
        **kwargs: Any,
    ) -> None:
        from slurmcast.simulate.replay.compare import Setup

        facts = {name: kwargs.pop(name) for name in ("executor", "noise", "unknown", "seed")}
        with _said():
            weights = Weights(gamma=gamma, longest_wait_s=longest_wait_d * DAY_S)
            setup = Setup(policies, kappas or (0.0,), weights, **facts)
            _compare(lambda: command(*args, **kwargs), setup, plot, as_json)

    decorators = (
        click.option(
            "--policies",
            default=DEFAULT_POLICIES,
            callback=reads(names),
            show_default=True,
            help=f"Names with commas between them, of: {', '.join(POLICIES)}.",
        ),
        click.option(
            "--kappa",
            "kappas",
            type=Finite(min=0),
            multiple=True,
            help="Weight of energy in 1/(GPU s kWh); several times: one run with each. Default: 0.",
        ),
        click.option("--gamma", type=Finite(min=0), default=0.0, help="Greedy's weight of a kWh, in s."),
        click.option(
            "--longest-wait",
            "longest_wait_d",
            type=Finite(min=0),
            default=LONGEST_WAIT_S / DAY_S,
            show_default=True,
            help="Days from when on lookahead passes over no job.",
        ),
        click.option(
            "--executor",
            default="skip",
            callback=reads(known),
            show_default=True,
            help="How offers become starts: skip, slurm or agent.",
        ),
        click.option(
            "--noise",
            type=Finite(0, 3),
            help="Error of predictions: 0.3 is 30 %. Default: the predictions that were made, else 0.3.",
        ),
        click.option("--unknown", type=Finite(0, 1), default=0.0, help="Share of jobs with no prediction."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is drawn."),
        click.option(
            "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the runs: .png, .svg or .pdf."
        ),
        as_json,
    )
    result: Any = guarded(inner)
    for decorator in reversed(decorators):
        result = decorator(result)
    return result  # type: ignore[no-any-return]


@contextmanager
def _said() -> Iterator[None]:
    """Let every expected fault come as one line."""
    from slurmcast.simulate.engine import SimulationError
    from slurmcast.simulate.plots import PlotError
    from slurmcast.simulate.replay.trace import TraceError, UnknownPool
    from slurmcast.store.database import StoreError

    try:
        yield
    except UnknownPool as error:
        raise click.UsageError(str(error)) from None
    except (TraceError, StoreError, SimulationError, PlotError, ValueError) as error:
        raise Failure(str(error)) from None


def _compare(made: Callable[[], Trace], setup: Any, plot: Path | None, as_json: bool) -> None:
    from slurmcast.simulate import plots
    from slurmcast.simulate.replay import show
    from slurmcast.simulate.replay.compare import compare, report

    if plot:
        plots.check(plot)
    trace = made()
    runs, jobs = len(setup.runs()), len(trace.workload)
    with click.progressbar(length=jobs * runs, label=f"{jobs} jobs, {runs} runs", file=sys.stderr) as bar:
        results = compare(trace, setup, bar.update)
    emit(report(trace, setup, results), as_json, show.replayed)  # before what may yet fail
    if plot:
        plots.draw(plot, trace.workload, {run.label: run.schedule for run in results}, f"{jobs} recorded jobs")


@click.group(short_help="Recorded jobs under other policies.")
def replay() -> None:
    """What recorded jobs would have waited and used under other policies."""


@replay.command("swf", short_help="A log in the Standard Workload Format.")
@click.argument("file", type=_file)
@gpus_option
@load_option
@click.option("--per-gpu", type=click.IntRange(min=1), default=1, show_default=True, help="Processors for one GPU.")
@click.option("--recorded-on", default="", metavar="TYPE", help="GPU type that the times hold for; default: the first.")
@click.option("--jobs", type=click.IntRange(min=1), help="The first so many lines only.")
@compared
def replay_swf(
    file: Path, found: Pools, target: float | None, per_gpu: int, recorded_on: str, jobs: int | None
) -> Trace:
    """FILE: a log of the Parallel Workloads Archive, plain or .gz. Processors stand for GPUs."""
    from slurmcast.simulate.replay import swf
    from slurmcast.simulate.replay.trace import on

    log = swf.Log(swf.read(file).jobs[:jobs])
    return on(found, target, lambda chosen: swf.trace(log, chosen, per_gpu, recorded_on))


@replay.command("gavel", short_help="A trace of Gavel (OSDI '20).")
@click.argument("file", metavar="TRACE", type=_file)
@click.option("--throughputs", type=_file, required=True, help="Gavel's simulation_throughputs.json.")
@gpus_option
@load_option
@click.option("--limits-seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of users' time limits.")
@compared
def replay_gavel(file: Path, throughputs: Path, found: Pools, target: float | None, limits_seed: int) -> Trace:
    """TRACE: jobs with arrivals like those of Philly, and measured speeds on k80, p100 and v100."""
    from slurmcast.simulate.replay import gavel
    from slurmcast.simulate.replay.trace import on

    lines, table = gavel.read(file), gavel.speeds(throughputs)
    return on(found, target, lambda chosen: gavel.trace(lines, table, chosen, limits_seed))


@replay.command("history", short_help="What this cluster did.")
@click.option("--sacct", type=_file, help="What sacct printed (see above); default: slurmcast's store.")
@time_option("--since", f"Jobs submitted from T on: {FORMS}; default: {DAYS}d, of a file all.")
@time_option("--until", "Jobs submitted before T; default: now.")
@click.option(
    "--gpus",
    "found",
    callback=reads(pools),
    metavar="PARTITION=N,...",
    help="GPUs of each partition, the most powerful first; default: the most that were ever in use at once.",
)
@click.option("--fill-energy", is_flag=True, help="Where energy wasn't measured, take the GPU type's mean power.")
@compared
@click.pass_obj
def replay_history(
    config: Config,
    sacct: Path | None,
    since: float | None,
    until: float | None,
    found: Pools | None,
    fill_energy: bool,
) -> Trace:
    """What would another policy, or another kappa, have done to the last month?

    From slurmcast's store, as the daemon's user (runuser -u slurmcast -- slurmcast simulate replay history), or from a
    file that this made:

    \b
    sacct -aXP -S now-30days -o \\
      JobID,User,Partition,Submit,Eligible,Start,Elapsed,Timelimit,State,AllocTRES
    """
    from slurmcast.simulate.replay import history
    from slurmcast.simulate.replay import sacct as printed

    if since is None and sacct is None:
        since = time.time() - DAYS * DAY_S
    told = printed.clock if sacct else float
    first, last = 0.0 if since is None else told(since), math.inf if until is None else told(until)
    if first >= last:
        raise click.UsageError("--since must be before --until")
    past = printed.read(sacct) if sacct else history.from_store(config, first, last)
    chosen = [run for run in past if first <= run.submit_s < last]
    counts = found.counts if found else None
    trace = history.trace(chosen, history.site(chosen, config, counts), fill_energy)
    guessed = () if counts else ("GPUs: the most that were in use at once; give --gpus to say how many there are",)
    return replace(trace, notes=(*trace.notes, *guessed))
