"""``slurmcast label``, thin: parse, plan, ask, run, print."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from slurmcast import config
from slurmcast.client import Client
from slurmcast.console import Failure, Finite, as_json, emit, guarded
from slurmcast.label import show, slurm
from slurmcast.label.campaign import PAUSES_S, Campaign, View
from slurmcast.label.estimates import Estimates
from slurmcast.label.plan import Exclusive, Rules, Stage, Unfit, affordable, cell, totals
from slurmcast.label.slurm import SlurmError
from slurmcast.label.state import State, StateError
from slurmcast.label.words import Budget, Cell, Place, Work
from slurmcast.label.works import ListError, listed, work
from slurmcast.probe import gpus

STATE = "slurmcast-label.jsonl"
"""The file's name in the scripts' folder; beside it lies the folder of the runs' output."""


@click.command(short_help="Run scripts often enough to trust their times.")
@click.argument("scripts", metavar="DIR|LIST", type=click.Path(exists=True, path_type=Path))
@click.option("--partition", "-p", "names", multiple=True, metavar="P", help="Only there; default: all managed ones.")
@click.option("--runs", "least", type=click.IntRange(2, 20), default=2, show_default=True, help="Runs at least.")
@click.option("--max-runs", "most", type=click.IntRange(2, 20), default=3, show_default=True, help="Runs at most.")
@click.option("--gpu-hours", type=Finite(min=0, min_open=True), metavar="H", help="Budget in GPU hours.")
@click.option("--kwh", type=Finite(min=0, min_open=True), metavar="E", help="Budget in kWh of the GPUs.")
@click.option("--yes", is_flag=True, help="Ask nothing; without a budget, what the plan can cost at most is it.")
@click.option(
    "--exclusive",
    type=click.Choice([kind.value for kind in Exclusive]),
    default=Exclusive.USER.value,
    show_default=True,
    help="Share nodes with one's own jobs only; with nobody, and take all their GPUs; or only the GPUs with nobody.",
)
@click.option("--in-flight", type=click.IntRange(1, 10000), default=10, show_default=True, help="Runs that may wait.")
@click.option("--nice", type=int, metavar="N", help="sbatch's --nice: let other jobs go first.")
@click.option("--retry", is_flag=True, help="Try again what failed in an earlier call.")
@click.option("--state", "state_path", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {STATE} there.")
@click.option(
    "--on-interrupt",
    type=click.Choice(["ask", "leave", "cancel"]),
    default="ask",
    show_default=True,
    help="What becomes of the jobs at Ctrl-C; without a terminal, ask is leave.",
)
@as_json
@click.pass_obj
@guarded
def label(
    cfg: config.Config,
    scripts: Path,
    names: tuple[str, ...],
    least: int,
    most: int,
    gpu_hours: float | None,
    kwh: float | None,
    yes: bool,
    exclusive: str,
    in_flight: int,
    nice: int | None,
    retry: bool,
    state_path: Path | None,
    on_interrupt: str,
    as_json: bool,
) -> None:
    """Run each batch script of a folder, or of a list of paths with arguments, on each partition until two times agree.

    Two that differ by less than 10 % of their mean do; else there is a third run, and the closest pair counts. All runs
    are your own jobs. Called again, it goes on where it was.
    """
    if most < least:
        raise click.UsageError("--max-runs must not be less than --runs")
    if not yes and gpu_hours is None and kwh is None and not sys.stdin.isatty():
        raise click.UsageError("without a terminal, give a budget: --gpu-hours, --kwh or --yes")
    rules, asked = Rules(least, most, in_flight, Exclusive(exclusive)), Budget(gpu_hours, kwh)
    folder = (scripts if scripts.is_dir() else scripts.parent).absolute()
    try:
        state = State((state_path or folder / STATE).absolute())
        daemon = Estimates(Client(cfg))
        cells, unfit = _cells(_places(cfg, names), listed(scripts), rules.exclusive, daemon)
        trouble = daemon.trouble
        logs = state.path.with_suffix(".logs")
        campaign = Campaign(cells, state, rules, daemon.runs, logs=logs, nice=nice, retry=retry, tell=_say)
        view = campaign.look()
        show.plan(view.standings, unfit, rules, view.spent, trouble)
        budget = _budget(view, rules, asked, yes)
        logs.mkdir(exist_ok=True)
        with show.board(budget) as board, _interrupts() as stop:
            campaign.tell = board.tell
            view = _run(campaign, budget, board, stop)
        if stop.is_set():
            _stop(campaign, view, on_interrupt)
        else:
            campaign.ask_store()
    except (SlurmError, StateError, ListError) as error:
        raise Failure(str(error)) from None
    view = replace(campaign.look(), beyond=view.beyond)
    emit(show.summary(view, unfit, budget, state.path, logs), as_json, show.results)
    sys.exit(0 if all(s.stage is Stage.DONE for s in view.standings) else 1)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _places(cfg: config.Config, names: Sequence[str]) -> list[Place]:
    """The partitions that were named, or all that slurmcast manages, with what Slurm and the configuration say."""
    managed = {partition.name: partition for partition in cfg.partition}
    wanted = list(dict.fromkeys(names or managed))
    if not wanted:
        raise Failure("the configuration has no [[partition]]; name partitions by --partition")
    facts = slurm.partitions()
    if missing := [name for name in wanted if name not in facts]:
        raise Failure(f"Slurm has no partition {', '.join(missing)} that you may see")
    found = []
    for name in wanted:
        told, known = managed.get(name), facts[name]
        named = told.gpu_type if told and told.gpu_type else min(known.types, default=name)
        card, mean_w = gpus.find(named), told.prior_power_w if told else None
        powers = [power for power in (mean_w, card.tdp_w if card else None) if power]
        mean_w = mean_w or (card.power_w if card else None)
        found.append(replace(known, mean_w=mean_w, most_w=max(powers, default=None)))
    return found


def _cells(
    places: Sequence[Place], scripts: Sequence[tuple[Path, tuple[str, ...]]], exclusive: Exclusive, daemon: Estimates
) -> tuple[list[Cell], list[Unfit]]:
    """What is to be run where, each work once, and what can't be."""
    cells: list[Cell] = []
    unfit: list[Unfit] = []
    seen: dict[str, Work] = {}
    with click.progressbar(scripts, label="Reading scripts", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        for path, arguments in bar:
            read = work(path, arguments)
            first = seen.setdefault(read.key, read)
            if first is not read:
                unfit += [Unfit(read, place.name, f"it is the same work as {first.path}") for place in places]
                continue
            times_s = {} if read.refusal else daemon.times_s(read)
            for place in places:
                made = cell(read, place, exclusive, times_s.get(place.name))
                if isinstance(made, Cell):
                    cells.append(made)
                else:
                    unfit.append(made)
    return cells, unfit


def _budget(view: View, rules: Rules, asked: Budget, yes: bool) -> Budget:
    """What may be spent: as asked for, or as the user says now. Raises Failure where it is not enough for anything."""
    wanted = [s for s in view.standings if s.stage is Stage.WANTED]
    most = view.committed + totals(view.standings, rules)[1]
    budget = asked
    if asked == Budget():
        hours = most.gpu_hours
        if not yes and wanted:
            hours = click.prompt("Budget in GPU hours", type=Finite(min=0, min_open=True), err=True)
        budget = Budget(gpu_hours=hours)
    elif not yes and wanted and sys.stdin.isatty():
        click.confirm(f"Spend up to {show.limits(budget)}?", abort=True, err=True)
    if budget.kwh is not None and (dark := {s.cell.partition for s in wanted if s.cell.most_w is None}):
        names = ", ".join(sorted(dark))
        raise Failure(f"the power of {names}'s GPUs isn't known: set prior_power_w there, or give --gpu-hours alone")
    if wanted and not any(affordable(view.committed, budget, s.cell, s.judgement.more) for s in wanted):
        least = min((s.cell.at_most(s.judgement.more) for s in wanted), key=lambda cost: cost.gpu_hours)
        raise Failure(
            f"the budget of {show.limits(budget)} is not enough: {show.amount(view.committed)} are used or may yet be, "
            f"and the cheapest script can cost {show.amount(least)} more; give more, or shorten time limits"
        )
    return budget


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C, or SIGTERM, sets; the next one ends the command at once."""
    stop = threading.Event()

    def caught(*_: object) -> None:
        give_back()
        stop.set()

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, caught) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        give_back()


def _run(campaign: Campaign, budget: Budget, board: show.Board, stop: threading.Event) -> View:
    """Rounds until all is done or somebody stops it; the last view."""
    pause_s, longest_s = PAUSES_S
    view = campaign.step(budget)
    board.show(view)
    while not view.over and not stop.wait(pause_s):
        before, view = view, campaign.step(budget)
        board.show(view)
        pause_s = min(2 * pause_s, longest_s) if view == before else PAUSES_S[0]
    return view


def _stop(campaign: Campaign, view: View, on_interrupt: str) -> None:
    """Leave or cancel what Slurm has, and say how to go on."""
    left = view.waiting + view.running
    cancel = on_interrupt == "cancel"
    if left and on_interrupt == "ask" and sys.stdin.isatty():
        cancel = click.confirm(f"Cancel the {left} runs that wait or run?", default=False, err=True)
    if left and cancel:
        _say(f"{campaign.cancel()} runs cancelled.")
    elif left:
        _say(f"{left} runs stay in Slurm.")
    _say("To go on, give the same command again.")
