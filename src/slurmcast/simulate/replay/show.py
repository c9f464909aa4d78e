"""The answer of ``slurmcast simulate replay`` as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from slurmcast.show import duration, terminal

COLUMNS = ("policy", "kappa", "wait", "longest", "waited", "run", "kWh", "+ idle", "p50", "p95", "p99")

WIDTH = 100
"""Columns that the table needs: narrower terminals fold its lines rather than lose figures."""


def replayed(answer: Mapping[str, Any]) -> None:
    """Print it: mean and longest wait, how many waited, mean running time, energies, bounded slowdown."""
    console = terminal(max(terminal().width, WIDTH))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    jobs = answer["jobs"]
    for row in answer["results"]:
        table.add_row(
            row["policy"],
            "" if row["kappa"] is None else f"{row['kappa']:.3g}",
            duration(row["wait_s"] / jobs),
            duration(row["wait_max_s"]),
            str(row["waiting_tasks"]),
            duration(row["run_s"] / jobs),
            *(_number(row[name]) for name in ("energy_kwh", "with_idle_kwh")),
            *(_number(row[f"slowdown_p{level}"]) for level in (50, 95, 99)),
        )
    console.print(table)
    console.print("wait, run: means over all jobs; kWh, + idle (GPUs): sums; p50 to p99: bounded slowdown")
    gpus = ", ".join(f"{count} {name}" for name, count in answer["gpus"].items())
    load = "" if answer["load"] is None else f"load {answer['load']:.2f}; "
    console.print(f"{gpus}; {load}executor {answer['setup']['executor']}")
    console.print(f"predictions: {answer['predictions']}")
    if kappa := answer["break_even_kappa"]:
        console.print(f"break-even kappa of the median job: {kappa:.2g}")
    for note in answer["notes"]:
        console.print(note)
    if missing := max((row["energy_unknown"] for row in answer["results"]), default=0):
        console.print(f"{missing} jobs aren't in the energies: theirs isn't known")


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
