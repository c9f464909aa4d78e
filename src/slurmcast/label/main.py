"""One call of ``slurmcast label``: plan, ask, run until all is done or somebody stops it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from slurmcast import config
from slurmcast.client import Client
from slurmcast.console import Failure, Finite
from slurmcast.label import show, slurm
from slurmcast.label.campaign import PAUSES_S, Campaign, View
from slurmcast.label.estimates import Estimates
from slurmcast.label.plan import Exclusive, Rules, Stage, Unfit, affordable, cell, totals
from slurmcast.label.slurm import SlurmError
from slurmcast.label.state import State, StateError
from slurmcast.label.words import NO_BOUND, Budget, Cell, Place, Work
from slurmcast.label.works import ListError, listed, work
from slurmcast.probe import gpus
from slurmcast.show import printable


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for."""

    scripts: Path
    """A folder or a list."""
    partitions: tuple[str, ...]
    """Empty: all that slurmcast manages."""
    rules: Rules
    budget: Budget
    """Without any bound: the one of the call before holds, or the user is asked, or what the plan can cost at most is
    it."""
    state: Path
    ask: bool
    nice: int | None
    retry: bool
    on_interrupt: str
    """``ask``, ``leave`` or ``cancel``."""


def run(cfg: config.Config, wish: Wish) -> dict[str, Any]:
    """Label the scripts; the results, JSON-ready. Raises :class:`Failure`, and OSError."""
    rules = wish.rules
    try:
        slurm.check_accounting()
        state = State(wish.state)
        daemon = Estimates(Client(cfg))
        cells, unfit = _cells(_places(cfg, wish.partitions), listed(wish.scripts), rules.exclusive, daemon)
        trouble, logs = daemon.trouble, state.path.with_suffix(".logs")
        campaign = Campaign(cells, state, rules, daemon.runs, logs=logs, nice=wish.nice, retry=wish.retry, tell=_say)
        view = campaign.look()
        show.plan(view.standings, unfit, rules, view.spent, trouble)
        budget = _budget(view, wish, state)
        logs.mkdir(exist_ok=True)
        with show.board(budget) as board, _interrupts() as stop:
            campaign.tell = board.tell
            view = _rounds(campaign, budget, board, stop)
        if stop.is_set():
            campaign.tell = _say
            _stop(campaign, view, wish.on_interrupt)
        campaign.ask_store()
        view = replace(campaign.look(), beyond=view.beyond)
    except (SlurmError, StateError, ListError) as error:
        raise Failure(str(error)) from None
    return show.summary(view, unfit, budget, state.path, logs)


def _say(line: str) -> None:
    click.echo(printable(line), err=True)


def _places(cfg: config.Config, names: Sequence[str]) -> list[Place]:
    """The partitions that were named, or all that slurmcast manages, with what Slurm and the configuration say."""
    managed = {partition.name: partition for partition in cfg.partition}
    wanted = list(dict.fromkeys(names or managed))
    if not wanted:
        raise Failure("the configuration has no [[partition]]; name partitions by --partition")
    facts = slurm.partitions()
    if missing := [name for name in wanted if name not in facts]:
        unseen = f"Slurm has no partition {', '.join(missing)} that you may see; it has {', '.join(facts) or 'none'}"
        raise click.UsageError(unseen) if names else Failure(unseen)
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
    shown = click.progressbar(scripts, label="Reading scripts", file=sys.stderr) if sys.stderr.isatty() else None
    with shown or nullcontext(scripts) as each:
        for path, arguments in each:
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


def _budget(view: View, wish: Wish, state: State) -> Budget:
    """What may be spent: as asked for, or as before, or as the user says now. Raises Failure where it is not enough for
    anything."""
    wanted = [s for s in view.standings if s.stage is Stage.WANTED]
    ahead = any(s.stage in (Stage.WANTED, Stage.RUNNING) for s in view.standings)  # third runs may be needed
    budget = wish.budget
    if budget == NO_BOUND and state.budget != NO_BOUND:
        budget = state.budget
        if ahead:
            _say(f"The budget is still {show.limits(budget)}; --gpu-hours and --kwh give another.")
    if budget == NO_BOUND:
        if not (wish.ask and ahead):
            return Budget(gpu_hours=(view.committed + totals(view.standings, wish.rules)[1]).gpu_hours)
        budget = click.prompt('Budget in GPU hours, or in kWh as in "2.5 kWh"', value_proc=spendable, err=True)
    elif wish.ask and wanted and sys.stdin.isatty():
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
    state.allow(budget)
    return budget


def spendable(text: str) -> Budget:
    """What a user answers: GPU hours, or an energy with its unit. Raises click.BadParameter."""
    number = text.strip().lower()
    energy = number.endswith("kwh")
    value = Finite(min=0, min_open=True).convert(number.removesuffix("kwh"), None, None)
    return Budget(kwh=value) if energy else Budget(gpu_hours=value)


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


def _rounds(campaign: Campaign, budget: Budget, board: show.Board, stop: threading.Event) -> View:
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
