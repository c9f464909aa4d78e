"""A report as tables on a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rich.table import Table

from slurmcast.report import words
from slurmcast.report.usage import DIMENSIONS
from slurmcast.report.words import Answer
from slurmcast.show import terminal

NOTHING = "No GPU run ended in this time; --since takes earlier dates."


def show(answer: Answer) -> None:
    """Print the report."""
    console = terminal()
    console.print(words.heading(answer), soft_wrap=True, style="bold")
    if not answer["total"]["runs"]:
        console.print(NOTHING)
        return
    for dimension in DIMENSIONS:
        rows = answer["by"][dimension]
        if len(rows) > 1 or dimension in {"partition", "state"}:
            console.print(_usage(f"By {dimension}" + (" (its Monday)" * (dimension == "week")), rows, answer))
    console.print(_usage("In all", [{"name": "", **answer["total"]}], answer))
    for what in ("time", "energy"):
        if answer["estimates"][what]["total"]["runs"]:
            console.print(_errors(what, answer["estimates"][what]))
    for sentence in sentences(answer):
        console.print(sentence, soft_wrap=True)


def sentences(answer: Answer) -> list[str]:
    """What stands in no table: waiting, time limits, what slurmcast changed."""
    total, estimates = answer["total"], answer["estimates"]
    limits = estimates["limits"]
    said = [f"Waiting: half of the runs at most {words.wait(total['wait_p50_s'])}, nine of ten at most "
            f"{words.wait(total['wait_p90_s'])}."]  # fmt: skip
    if limits["runs"]:
        said.append(
            f"Time limits: of {words.count(limits['runs'])} completed runs, the limit was "
            f"{words.times(limits['limit_over_real'])} the real time (median)."
        )
    if limits["p90_over_real"] is not None:
        said.append(
            f"Where there was an estimate, its p90 was {words.times(limits['p90_over_real'])} the real time, "
            f"and the limit {words.times(limits['limit_over_real_estimated'])}."
        )
    return [*said, changed(total)]


def changed(total: Answer) -> str:
    """What slurmcast did, in a sentence."""
    runs, made, placed = (words.count(total[key]) for key in ("changed_runs", "changes", "placed_runs"))
    return (
        f"Of {words.count(total['runs'])} runs, slurmcast changed {runs} while they waited ({made} changes of place in "
        f"the queue or partition), and chose the partition of {placed} among several that were possible."
    )


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if place else "left")
    return table


def _usage(title: str, rows: Sequence[Answer], answer: Answer) -> Table:
    amounts = {
        "carbon (kg CO2e)": "carbon_kg",
        "water (L)": "water_l",
        f"cost ({answer['currency']})" if answer["currency"] else "cost": "cost",
    }
    shown = {name: key for name, key in amounts.items() if answer["total"][key] is not None}
    names = ("runs", "GPU hours", "energy (kWh)", "measured", *shown, "mean wait", "not completed (GPU hours)")
    table = _table(title, ("", *names))
    for row in rows:
        table.add_row(
            words.label(row["name"]) if row["name"] or title != "In all" else "",
            words.count(row["runs"]),
            words.number(row["gpu_hours"]),
            words.number(row["energy_kwh"]),
            words.percent(words.coverage(row)),
            *(words.number(row[key]) for key in shown.values()),
            words.wait(row["wait_mean_s"]),
            words.number(row["lost_gpu_hours"]),
        )
    return table


def _errors(what: str, figures: Answer) -> Table:
    columns = ("runs", "median error", "p90 error", "in the 80 % interval", "estimate / real")
    table = _table(f"Estimates of {what} against completed runs", ("", *columns))
    rows = [*figures["source"], *figures["partition"], {"name": "in all", **figures["total"]}]
    for row in rows:
        table.add_row(
            words.label(row["name"]),
            words.count(row["runs"]),
            words.percent(row["median_error"]),
            words.percent(row["p90_error"]),
            words.percent(row["inside_80"]),
            words.times(row["ratio"][1]),
        )
    return table


def as_csv(answer: Answer) -> str:
    """The usage tables as one: a row for the total and for each row of each dimension. Unknown amounts are empty."""
    out = io.StringIO()
    measures = list(answer["by"]["state"][0])[1:] if answer["by"]["state"] else []
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["by", "name", *measures])
    for dimension, rows in {"total": [{"name": "", **answer["total"]}], **answer["by"]}.items():
        for row in rows:
            table.writerow([dimension, _cell(row["name"]), *(_plain(row[measure]) for measure in measures)])
    return out.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    """``text``; with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
