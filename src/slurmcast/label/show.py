"""The plan, the progress and the results of labelling, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from slurmcast.codec import to_json
from slurmcast.label.campaign import View
from slurmcast.label.plan import Rules, Stage, Standing, Unfit, totals
from slurmcast.label.words import Budget, Cost, Run
from slurmcast.show import duration, printable, terminal

Answer = dict[str, Any]


def _table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def amount(cost: Cost) -> str:
    """``12.5 GPU h, 3.1 kWh``; energy only where it is known."""
    energy = "" if cost.kwh is None else f", {_number(cost.kwh)} kWh"
    return f"{_number(cost.gpu_hours)} GPU h{energy}"


def limits(budget: Budget) -> str:
    """The budget in words."""
    parts = [] if budget.gpu_hours is None else [f"{_number(budget.gpu_hours)} GPU h"]
    parts += [] if budget.kwh is None else [f"{_number(budget.kwh)} kWh"]
    return " and ".join(parts)


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def plan(standings: Sequence[Standing], unfit: Sequence[Unfit], rules: Rules, used: Cost, trouble: str) -> None:
    """Print what would be done, on stderr: stdout is for results."""
    console = terminal(stderr=True)
    partitions = list(dict.fromkeys(s.cell.partition for s in standings))
    console.print(_plan_table(standings, partitions, rules))
    for reason in dict.fromkeys((u.work.name, u.partition, u.reason) for u in unfit):
        console.print(f"Left out: {reason[0]} on {reason[1]}: {reason[2]}", soft_wrap=True)
    for s in standings:
        if s.stage is Stage.FAILED:
            console.print(
                f"Left out: {s.cell.work.name} on {s.cell.partition} failed before: {s.reason} (--retry tries again)",
                soft_wrap=True,
            )
    if trouble:
        console.print(f"Without estimates, time limits are taken: {trouble}", soft_wrap=True)
    expected, most = totals(standings, rules)
    console.print(f"Still to be run: {amount(expected)} expected, {amount(most)} at the very most.")
    if used.gpu_hours:
        console.print(f"Already used, and not in these: {amount(used)}. The budget covers both.", soft_wrap=True)


def _plan_table(standings: Sequence[Standing], partitions: Sequence[str], rules: Rules) -> Table:
    made = _table(
        f"At least {rules.least}, at most {rules.most} runs each",
        *("partition", "scripts", "runs to make", "time of one run", "expected", "at most"),
    )
    for name in partitions:
        here = [s for s in standings if s.cell.partition == name]
        wanted = [s for s in here if s.stage is Stage.WANTED]
        expected, most = totals(wanted, rules)
        times = [s.cell.expected_s or s.cell.limit_s for s in wanted]
        span = " to ".join(dict.fromkeys(duration(edge(times)) for edge in (min, max))) if times else ""
        runs = str(sum(s.judgement.more for s in wanted))
        made.add_row(name, f"{len(wanted)} of {len(here)}", runs, span, amount(expected), amount(most))
    return made


class Board:
    """Progress on stderr: a bar and the events above it on a terminal, else one line for each event."""

    def __init__(self, progress: Progress | None, budget: Budget) -> None:
        self._progress, self._budget = progress, budget
        self._task = progress.add_task("", total=None, text="") if progress else None
        self._trouble = ""

    def tell(self, line: str) -> None:
        """Something happened."""
        if self._progress:
            self._progress.console.print(line, soft_wrap=True)
        else:
            click.echo(printable(line), err=True)

    def show(self, view: View) -> None:
        """How far it is."""
        if view.trouble and view.trouble != self._trouble:
            self.tell(f"Slurm: {view.trouble}; trying again")
        self._trouble = view.trouble
        if self._progress and self._task is not None:
            settled = sum(s.stage not in (Stage.WANTED, Stage.RUNNING) for s in view.standings)
            text = f"{view.running} run, {view.waiting} wait; {amount(view.spent)} of {limits(self._budget)}"
            self._progress.update(self._task, total=len(view.standings), completed=settled, text=text)


@contextmanager
def board(budget: Budget) -> Iterator[Board]:
    """A board, for as long as there is something to show."""
    console = terminal(stderr=True)
    if not console.is_terminal:
        yield Board(None, budget)
        return
    done = TextColumn("scripts on partitions are done;")
    text = TextColumn("{task.fields[text]}", markup=False)
    columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), done, text, TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield Board(progress, budget)


def summary(view: View, unfit: Sequence[Unfit], budget: Budget, state: Path, logs: Path) -> Answer:
    """The results, JSON-ready."""
    beyond = {cell.id for cell in view.beyond}
    return {
        "cells": [_cell(s, s.cell.id in beyond) for s in view.standings],
        "left_out": [
            {"script": str(u.work.path), "arguments": list(u.work.arguments), "partition": u.partition,
             "reason": u.reason}
            for u in unfit
        ],
        "spent": to_json(view.spent),
        "budget": to_json(budget),
        "state": str(state),
        "logs": str(logs),
    }  # fmt: skip


def _cell(s: Standing, beyond: bool) -> Answer:
    energies = [run.energy_kwh for run in s.counted if run.energy_kwh is not None]
    return {
        "script": str(s.cell.work.path),
        "arguments": list(s.cell.work.arguments),
        "partition": s.cell.partition,
        "stage": "beyond the budget" if beyond else s.stage.value,
        "runs": [_run(run) for run in s.counted],
        "time_s": s.judgement.mean_s,
        "difference": s.judgement.difference,
        "accepted": s.judgement.accepted,
        "resolved": s.judgement.resolved,
        "energy_kwh": fmean(energies) if energies else None,
        "reason": s.reason or None,
        "failed_run": _run(s.blamed) if s.blamed else None,
    }


def _run(run: Run) -> Answer:
    names = (
        "array",
        "task",
        "job_id",
        "start",
        "state",
        "elapsed_s",
        "gpus",
        "exit_code",
        "nodes",
        "energy_kwh",
        "is_label",
    )
    return {name: getattr(run, name) for name in names}


def results(answer: Answer) -> None:
    """Print a :func:`summary`."""
    console = terminal()
    energy = any(cell["energy_kwh"] is not None for cell in answer["cells"])
    columns = ("script", "partition", "runs", "time", "difference", *(["energy"] if energy else []), "pair")
    made = _table("Labels", *columns)
    for cell in answer["cells"]:
        difference = "" if cell["difference"] is None else f"{cell['difference']:.1%}"
        measured = [] if not energy else ["" if cell["energy_kwh"] is None else f"{cell['energy_kwh']:.3g} kWh"]
        name = " ".join([Path(cell["script"]).name, *cell["arguments"]])
        time = "" if cell["time_s"] is None else duration(cell["time_s"])
        made.add_row(name, cell["partition"], str(len(cell["runs"])), time, difference, *measured, _pair(cell))
    console.print(made)
    for cell in answer["cells"]:
        if run := cell["failed_run"]:
            name = " ".join([Path(cell["script"]).name, *cell["arguments"]])
            task = f"{run['array']}_{run['task']}"
            where, output = "before it began", ""
            if run["start"]:
                where, output = f"on {run['nodes'] or 'an unknown node'}", f"{answer['logs']}/*-{task}.out, and "
            line = f"{name} on {cell['partition']}: {cell['reason']} {where}. See {output}sacct -j {task}"
            console.print(line, soft_wrap=True)
    short = sum(cell["accepted"] and not cell["resolved"] for cell in answer["cells"])
    if short:
        console.print(f"(s): so short that Slurm's whole seconds can't tell a difference of 10 % ({short} in all).")
    runs = [run for cell in answer["cells"] for run in cell["runs"]]
    if any(run["is_label"] for run in runs):
        console.print(f"slurmcast learns from {sum(run['is_label'] for run in runs)} of {len(runs)} runs so far.")
    spent = answer["spent"]
    console.print(f"Used: {amount(Cost(**spent))} of {limits(Budget(**answer['budget']))}.")


def _pair(cell: Answer) -> str:
    if cell["stage"] == Stage.DONE:
        return ("accepted" if cell["resolved"] else "accepted (s)") if cell["accepted"] else "closest, not accepted"
    return f"{cell['stage']}: {cell['reason']}" if cell["reason"] else str(cell["stage"])
