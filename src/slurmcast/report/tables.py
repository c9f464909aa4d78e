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


def show(answer: Answer) -> None:
    """Print the report."""
    console = terminal()
    console.print(words.heading(answer), soft_wrap=True, style="bold")
    if not answer["total"]["runs"]:
        console.print(words.NOTHING)
        return
    for dimension in DIMENSIONS[:-1]:
        rows = answer["by"][dimension]
        if len(rows) > 1:
            console.print(_usage(f"By {dimension}" + (" (its Monday)" * (dimension == "week")), rows, answer))
    console.print(_usage("By state", [*answer["by"]["state"], {"name": "in all", **answer["total"]}], answer))
    for what in ("time", "energy"):
        if answer["estimates"][what]["total"]["runs"]:
            console.print(_errors(what, answer["estimates"][what]))
    for sentence in words.sentences(answer):
        console.print(sentence, soft_wrap=True)


def _table(title: str, columns: Sequence[str], texts: int = 1) -> Table:
    """A table without rows; the first ``texts`` of its columns are no numbers."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="left" if place < texts else "right", no_wrap=place >= texts)
    return table


def _usage(title: str, rows: Sequence[Answer], answer: Answer) -> Table:
    amounts = {"carbon_kg": "kg CO2e", "cost": answer["currency"] or "cost"}
    shown = {key: name for key, name in amounts.items() if answer["total"][key] is not None}
    table = _table(title, ("", "runs", "GPU h", "lost", "kWh", "measured", *shown.values(), "mean wait"))
    for row in rows:
        table.add_row(
            words.label(row["name"]),
            words.count(row["runs"]),
            words.number(row["gpu_hours"]),
            words.percent(row["lost_gpu_hours"] / row["gpu_hours"] if row["gpu_hours"] else None),
            words.number(row["energy_kwh"]),
            words.percent(words.coverage(row)),
            *(words.number(row[key]) for key in shown),
            words.wait(row["wait_mean_s"]),
        )
    return table


def _errors(what: str, figures: Answer) -> Table:
    columns = ("from", "partition", "runs", "median error", "p90 error", "inside 80 %", "estimate / real")
    table = _table(f"Estimates of {what} against completed runs", columns, texts=2)
    rows: list[tuple[str, str, Answer]] = []
    for source in figures["source"]:
        own = [row for row in figures["partition"] if row["source"] == source["name"]]
        of_each = [(source["name"], row["name"], row) for row in own]
        rows += of_each if len(own) == 1 else [(source["name"], "all", source), *of_each]
    for source, partition, row in [*rows, ("all", "all", figures["total"])]:
        table.add_row(
            words.label(source),
            words.label(partition),
            words.count(row["runs"]),
            words.percent(row["median_error"]),
            words.percent(row["p90_error"]),
            words.percent(row["inside_80"]),
            words.times(row["ratio"][1]),
        )
    return table


def as_csv(answer: Answer) -> str:
    """The usage tables as one: a row for the total and for each row of each dimension. What isn't known is empty."""
    out = io.StringIO()
    measures = list(answer["total"])
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["by", "name", *measures])
    for dimension, rows in {"total": [{"name": "", **answer["total"]}], **answer["by"]}.items():
        for row in rows:
            table.writerow([dimension, _cell(row["name"]), *(_plain(row.get(measure)) for measure in measures)])
    return out.getvalue()


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    """``text``; with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
