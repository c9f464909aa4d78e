"""The answer of ``slurmcast simulate paper`` as tables, which an ordinary terminal has room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from slurmcast.show import terminal
from slurmcast.simulate.paper import conditions

Answer = Mapping[str, Any]

COLUMNS = {
    "wait_s": "wait s",
    "waiting_tasks": "tasks",
    "run_s": "run s",
    "energy_kwh": "kWh",
    "with_idle_kwh": "+ idle",
    "slowdown_p99": "p99",
}
"""As in Table 2: waiting time, tasks with wait, running time, energy; then with idle GPUs, and bounded slowdown."""
DIGITS = {"wait_s": 0, "run_s": 0, "waiting_tasks": 2, "energy_kwh": 2, "with_idle_kwh": 0, "slowdown_p99": 1}


def show(answer: Answer) -> None:
    """Print figures and gains, each beside the paper's; for several data centres, the ranges too."""
    console, setup, theirs = terminal(), answer["setup"], answer["paper"]["table_2"]
    table = _table(
        f"data centre {answer['calibration']}, means of {setup['samples']} samples, {conditions(setup)}", "weight"
    )
    for name, row in answer["policies"].items():
        table.add_row(Text(name), *_figures(row), _weight(row["weight"]))
        if name in theirs:
            table.add_row("  paper", *_figures(theirs[name]), style="dim")
    console.print(table)
    for base, rows in answer["gains"].items():
        table = _table(f"against {base}")
        for name, row in rows.items():
            table.add_row(Text(name), *_percents(row))
            if base in theirs and name in theirs:
                paper = {metric: theirs[name][metric] / theirs[base][metric] - 1 for metric in theirs[name]}
                table.add_row("  paper", *_percents(paper), style="dim")
        if base == "simple":
            table.add_row("paper, Table 1", *_percents(answer["paper"]["table_1_gains"]), style="dim")
        console.print(table)
    if "ranges" in answer:
        heading = f"{len(answer['calibrations'])} data centres: least, median, greatest"
        console.print(_of_all(heading, answer["ranges"], _figures))
        for base, rows in answer["gain_ranges"].items():
            console.print(_of_all(f"{heading}, against {base}", rows, _percents))
    for name, kept in answer["not_tuned"].items():
        values = " and ".join(f"{parameter} = {value:g}" for parameter, value in kept.items())
        console.print(f"{name}: its weight is tuned; {values} are not.", soft_wrap=True)
    console.print("Calibrated by the Simple rule alone: no gain here reproduces the paper's.")


def _of_all(title: str, ranges: Answer, cells: Callable[[Answer], list[str]]) -> Table:
    table = _table(title)
    for name, row in ranges.items():
        for place in range(3):
            label = Text(name if place == 0 else "")
            table.add_row(label, *cells({metric: values[place] for metric, values in row.items()}))
    return table


def _table(title: str, *more: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", no_wrap=True)
    for column in (*COLUMNS.values(), *more):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _figures(row: Answer) -> list[str]:
    return [f"{row[metric]:,.{DIGITS[metric]}f}" if metric in row else "" for metric in COLUMNS]


def _percents(row: Answer) -> list[str]:
    return [f"{100 * row[metric]:+.1f} %" if metric in row else "" for metric in COLUMNS]


def _weight(weight: float | None) -> str:
    return "" if weight is None else f"{weight:.2g}"
