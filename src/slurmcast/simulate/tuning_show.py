"""What ``tune`` found, for people: a table, a picture in characters, a plot in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from slurmcast.model import HOUR_S
from slurmcast.policy.base import Floats
from slurmcast.show import duration, terminal
from slurmcast.simulate.plots import PlotError

Answer = Mapping[str, Any]

WIDTH, HEIGHT = 64, 14
"""Of the picture, in characters."""
MARKS = {"beaten": ".", "front": "o", "present": "x", "recommended": "*"}
"""The later ones hide the earlier."""
SHOWN = (("waiting time", "wait_s"), ("running time", "run_s"), ("energy", "energy_kwh"))


def tuned(answer: Answer) -> None:
    """The whole answer of ``tune``."""
    console = terminal()
    console.print(_table(answer))
    for line in picture(answer):
        print(line)
    for note in answer["notes"]:
        console.print(note, soft_wrap=True)
    for line in _words(answer):
        console.print(line, soft_wrap=True)


def _table(answer: Answer) -> Table:
    jobs = answer["jobs"]
    title = f"{jobs} jobs under policy {answer['policy']}; x: now, *: recommended, o: not beaten in waiting and energy"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("", "kappa", "mean wait", "waited", "longest wait", "mean run", "energy", "objective"):
        table.add_column(name, justify="right")
    for point in answer["points"]:
        mark, kappa = MARKS[_kind(answer, point)], f"{point['kappa']:g}"
        table.add_row(mark, kappa, *_figures(point, jobs), f"{point['objective']:.4f}")
    table.add_row("", "EASY", *_figures(answer["easy"], jobs), "")
    return table


def _figures(point: Answer, jobs: int) -> tuple[str, ...]:
    return (
        duration(point["wait_s"] / jobs),
        f"{point['waiting_tasks'] / jobs:.0%}",
        duration(point["wait_max_s"]),
        duration(point["run_s"] / jobs),
        _energy(point["energy_kwh"]),
    )


def _energy(kwh: float) -> str:
    """One place, more of little energy."""
    return f"{kwh:.1f} kWh" if kwh >= 100 else f"{kwh:.3g} kWh"


def _kind(answer: Answer, point: Answer) -> str:
    for kind in ("recommended", "present"):
        if point["kappa"] == answer[kind]["kappa"]:
            return kind
    return "front" if point["pareto"] else "beaten"


def picture(answer: Answer) -> list[str]:
    """Waiting against energy in characters, one line each; none where no kappa differs from another in either."""
    if len({(point["energy_kwh"], point["wait_s"]) for point in answer["points"]}) == 1:
        return []
    points = sorted(answer["points"], key=lambda point: list(MARKS).index(_kind(answer, point)))
    across, up = (np.array([point[name] for point in points]) for name in ("energy_kwh", "wait_s"))
    columns, rows = _places(across, WIDTH), _places(up, HEIGHT)
    field = [[" "] * WIDTH for _ in range(HEIGHT)]
    for point, column, row in zip(points, columns, rows, strict=True):
        field[HEIGHT - 1 - row][column] = MARKS[_kind(answer, point)]
    least, most = (duration(wait_s / answer["jobs"]) for wait_s in (up.min(), up.max()))
    left = [most, *[""] * (HEIGHT - 2), least]
    axis = _energy(across.min()).ljust(WIDTH - 12) + _energy(across.max()).rjust(12)
    lines = [f"{label:>9} |{''.join(row)}".rstrip() for label, row in zip(left, field, strict=True)]
    keys = "x now   * recommended   o not beaten by another kappa   . beaten"
    return ["mean wait", *lines, " " * 10 + "+" + "-" * WIDTH, " " * 11 + axis, " " * 11 + keys]


def _places(values: Floats, size: int) -> list[int]:
    """Of values in a row of ``size`` characters."""
    span = float(np.ptp(values))
    return [round((value - values.min()) / span * (size - 1)) if span > 0 else 0 for value in values.tolist()]


def _words(answer: Answer) -> list[str]:
    best, now, gain, easy = (answer[name] for name in ("recommended", "present", "gain", "easy"))
    weights = ", ".join(f"{name} {weight:g}" for name, weight in answer["weights"].items())
    kind, count = answer["blocks"]["kind"], answer["blocks"]["count"]
    changes, beside = (
        ", ".join(f"{name} {_change(best[key], base[key])}" for name, key in SHOWN) for base in (now, easy)
    )
    over = f"on all {count} {kind}" if count > 1 else f"on the only {kind.removesuffix('s')}"
    lines = [
        f"Best for {weights} (running, waiting, energy; each next to what it is now): kappa = {best['kappa']:g}",
        f"Next to the present kappa = {now['kappa']:g}, {over}: {changes}.",
        f"Next to EASY backfilling by the users' time limits: {beside}.",
    ]
    if gain["p50"] is not None:
        low, middle, high = (f"{gain[name]:+.1%}" for name in ("p05", "p50", "p95"))
        again = f"{answer['chosen_again']:.0%}"
        lines.append(f"Gain on {kind} that it wasn't chosen by: {middle} ({low} to {high}, 90 %).")
        lines.append(f"Drawing the {kind} anew chose this kappa or its neighbour in {again} of the draws.")
    doing = "Keep what is set."
    if answer["sure"]:
        doing = f"slurmcast kappa {best['kappa']:g}, or tune --apply, sets it."
        if answer["source"] != "history":
            doing = "That holds for this made-up work; for a site let its own jobs say (tune without --synthetic)."
    return [*lines, f"{answer['reason']} {doing}"]


def _change(value: float, base: float) -> str:
    return f"{value / base - 1:+.1%}" if base > 0 else "none" if value == 0 else f"{value:.3g} instead of none"


def draw(path: Path, answer: Answer) -> None:
    """The trade-off into a file, which :func:`slurmcast.simulate.plots.check` took. Raises
    :class:`slurmcast.simulate.plots.PlotError`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    points: Sequence[Answer] = answer["points"]
    hours = np.array([point["wait_s"] for point in points]) / answer["jobs"] / HOUR_S
    energy = np.array([point["energy_kwh"] for point in points])
    front = np.flatnonzero([point["pareto"] for point in points])
    front = front[np.argsort(energy[front])]
    axes.plot(energy, hours, ".", color="tab:gray", label="tried")
    axes.plot(energy[front], hours[front], "o-", color="tab:blue", label="not beaten in both")
    for kind, mark in (("present", "x"), ("recommended", "*")):
        point = answer[kind]
        label = f"{kind}: kappa = {point['kappa']:g}"
        wait_h = point["wait_s"] / answer["jobs"] / HOUR_S
        axes.plot(point["energy_kwh"], wait_h, mark, markersize=14, color="tab:red", label=label)
    for place in front.tolist():
        axes.annotate(f"{points[place]['kappa']:g}", (energy[place], hours[place]), fontsize=7, xytext=(4, 4),
                      textcoords="offset points")  # fmt: skip
    axes.set(title=f"{answer['jobs']} jobs under {answer['policy']}", xlabel="energy in kWh", ylabel="mean wait in h")
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None
