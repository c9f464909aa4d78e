"""A report as one HTML page: nothing is loaded, nothing runs, and everything in it is escaped. Pure but for the style
sheet, which lies beside this file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slurmcast import __version__
from slurmcast.report import plots, words
from slurmcast.report.markup import Element, Node, document, el
from slurmcast.report.words import Answer

MOST_BARS = 15
RATIOS = ("below 1/4", "1/4 to 1/2", "1/2 to 4/5", "4/5 to 5/4", "5/4 to 2", "2 to 4", "above 4")
"""The bins of :data:`slurmcast.report.accuracy.RATIO_EDGES` in words."""
FEWEST = 10
"""Runs of a source from which its calibration is drawn."""
ABOUT = {
    "user": "By user",
    "account": "By account",
    "partition": "By partition",
    "week": "By week",
    "state": "How runs ended",
}
SOURCES = (
    "Sources: probe and align are the trained model, history the user's own finished jobs, prior the published figures "
    "of the GPU type and nothing that was learned."
)

Column = tuple[str, Callable[[Answer], str]]


def html(answer: Answer) -> str:
    """The page of an answer of ``GET /v1/report``."""
    style = Path(__file__).with_name("style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"slurmcast report: {answer['cluster']}"),
        el("style", style),
    )
    top = el("header", el("h1", "slurmcast report"), el("p", words.heading(answer) + ".", class_="soft"))
    made = f"slurmcast {__version__}. Energy is that of the jobs' GPUs. A dash stands for what isn't known."
    body = el("body", top, el("main", *_main(answer)), el("footer", made))
    return document(el("html", head, body, lang="en"))


def _main(answer: Answer) -> Iterator[Element]:
    if not answer["total"]["runs"]:
        yield el("p", words.NOTHING)
        return
    yield _tiles(answer)
    for dimension in ("week", "user", "account", "partition", "state"):
        yield from _usage(answer, dimension)
    for what in ("time", "energy"):
        yield from _estimates(what, answer["estimates"][what], answer["estimates"])
    yield from _limits(answer["estimates"]["limits"])
    yield el("h2", "What slurmcast changed")
    yield el("p", words.changed(answer["total"]))
    if answer["learning"]:
        yield from _learning(answer["learning"])


def _tiles(answer: Answer) -> Element:
    total = answer["total"]
    measured = f"measured on {words.percent(words.coverage(total))} of the GPU hours"
    known = [
        ("Runs", words.count(total["runs"]), "", f"{words.count(total['lost_runs'])} not completed"),
        ("GPU hours", words.number(total["gpu_hours"]), "", f"{words.number(total['lost_gpu_hours'])} not completed"),
        ("Energy", words.number(total["energy_kwh"]), "kWh", measured),
    ]
    for name, key, count, unit, shown in (
        ("Carbon", "carbon_kg", "carbon_runs", "kg CO2e", words.number),
        ("Water", "water_l", "water_runs", "L", words.number),
        ("Cost", "cost", "cost_runs", answer["currency"] or "", words.money),
    ):
        if total[key] is not None:
            note = f"known of {words.count(total[count])} runs"
            known.append((name, shown(total[key]), unit, note))
    half, most = words.wait(total["wait_p50_s"]), words.wait(total["wait_p90_s"])
    known.append(("Median wait", half, "", f"nine of ten at most {most}"))
    tiles = (
        el("div", el("dt", name), el("dd", value, el("small", f" {unit}")), el("dd", note, class_="note"))
        for name, value, unit, note in known
    )
    return el("dl", *tiles, class_="tiles")


def _usage(answer: Answer, dimension: str) -> Iterator[Element]:
    rows = answer["by"][dimension]
    yield el("h2", ABOUT[dimension])
    if dimension == "week":
        energy = [(row["name"], row["energy_kwh"], row["lost_energy_kwh"] or 0.0) for row in rows]
        hours = [(row["name"], row["gpu_hours"], row["lost_gpu_hours"]) for row in rows]
        if any(value for _, value, _ in energy):
            yield _figure("Measured energy in kWh", plots.columns("Measured energy by week in kWh", energy), keys=True)
        yield _figure("GPU hours", plots.columns("GPU hours by week", hours), keys=True)
    elif dimension != "state" and len(rows) > 1:
        hours = [(words.label(row["name"]), row["gpu_hours"], row["lost_gpu_hours"]) for row in rows[:MOST_BARS]]
        yield _figure("GPU hours", plots.bars(f"GPU hours by {dimension}", hours), keys=True)
    first = "week (its Monday)" if dimension == "week" else dimension
    yield _table(f"What runs used, by {dimension}", first, _usage_columns(answer), rows)


def _usage_columns(answer: Answer) -> list[Column]:
    money = f"cost ({answer['currency']})" if answer["currency"] else "cost"
    amounts: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("carbon (kg CO2e)", "carbon_kg", words.number),
        ("water (L)", "water_l", words.number),
        (money, "cost", words.money),
    ]
    return [
        ("runs", lambda row: words.count(row["runs"])),
        ("GPU hours", lambda row: words.number(row["gpu_hours"])),
        ("energy (kWh)", lambda row: words.number(row["energy_kwh"])),
        ("measured", lambda row: words.percent(words.coverage(row))),
        *(
            (name, lambda row, key=key, shown=shown: shown(row[key]))
            for name, key, shown in amounts
            if answer["total"][key] is not None
        ),
        ("mean wait", lambda row: words.wait(row["wait_mean_s"])),
        ("not completed (GPU h)", lambda row: words.number(row["lost_gpu_hours"])),
    ]


def _estimates(what: str, figures: Answer, counts: Answer) -> Iterator[Element]:
    yield el("h2", f"Estimates of {what} against what came")
    if not figures["total"]["runs"]:
        yield el("p", f"No completed run had an estimate of its {what}" + " and was measured." * (what == "energy"))
        return
    yield el(
        "p",
        f"{words.count(figures['total']['runs'])} of {words.count(counts['completed_runs'])} completed runs, each with "
        "the estimate that it had when it started. Half of the errors are below "
        f"{words.percent(figures['total']['median_error'])}, and {words.percent(figures['total']['inside_80'])} of the "
        "real values lay inside the interval that should hold 80 %.",
    )
    if what == "time":
        yield el("p", SOURCES, class_="soft")
    names = [row["name"] for row in figures["source"]]
    drawn = plots.scatter(f"Estimated against real {what}", what, figures["cells"], names)
    yield _figure("Solid: as estimated. Dashed: twice and half of it.", drawn)
    ratios = [(name, count, 0.0) for name, count in zip(RATIOS, figures["ratios"]["runs"], strict=True)]
    drawn = plots.columns(f"Estimated by real {what}", ratios)
    yield _figure("Completed runs by estimate / real; in the middle, estimates are right within a quarter.", drawn)
    rows = [row for row in figures["source"] if row["runs"] >= FEWEST]
    if rows:
        drawn = plots.calibration(f"Calibration of estimates of {what}", rows)
        yield _figure("On the line, intervals hold what they promise; above it, real values are lower.", drawn)
    columns: list[Column] = [
        ("runs", lambda row: words.count(row["runs"])),
        ("median error", lambda row: words.percent(row["median_error"])),
        ("p90 error", lambda row: words.percent(row["p90_error"])),
        ("in the 80 % interval", lambda row: words.percent(row["inside_80"])),
        ("below it", lambda row: words.percent(row["below"][0])),
        ("above it", lambda row: words.percent(1 - row["below"][2])),
        ("estimate / real", lambda row: words.times(row["ratio"][1])),
    ]
    yield _table(f"Errors of {what} by source", "source", columns, figures["source"])
    by_both: list[Column] = [("source", lambda row: words.label(row["source"])), *columns]
    yield _table(f"Errors of {what} by partition and source", "partition", by_both, figures["partition"])


def _limits(limits: Answer) -> Iterator[Element]:
    if not limits["runs"]:
        return
    yield el("h2", "Time limits against real times")
    yield el("p", words.limits(limits))
    tenths = len(limits["used"])
    names = [f"{100 * k // tenths} to {100 * (k + 1) // tenths} %" for k in range(tenths)]
    rows = [(name, count, 0.0) for name, count in zip(names, limits["used"], strict=True)]
    yield _figure("Completed runs by the share of the limit that they used", plots.columns("Use of time limits", rows))


def _learning(learning: Answer) -> Iterator[Element]:
    yield el("h2", "Learning")
    yield el("p", words.learned(learning))
    columns: list[Column] = [
        ("jobs", lambda row: words.count(row["labels"])),
        ("why", lambda row: row["because"]),
        ("result", lambda row: row["result"]),
        ("reason", lambda row: row["reason"]),
        ("model", lambda row: row["model"] or words.UNKNOWN),
    ]
    rows = [{"name": words.day(training["began"]), **training} for training in learning["trainings"]]
    if rows:
        yield _table("Trainings", "began", columns, rows, kind="texts")


def _figure(caption: str, image: Element, keys: bool = False) -> Element:
    key: list[Node] = []
    if keys:
        key = [". ", el("span", class_="key main"), "completed", el("span", class_="key apart"), "not completed"]
    return el("figure", el("figcaption", caption, *key), image)


def _table(
    caption: str, first: str, columns: Sequence[Column], rows: Sequence[Answer], kind: str = "numbers"
) -> Element:
    head = el("tr", *(el("th", name, scope="col") for name in (first, *(name for name, _ in columns))))
    body = (
        el("tr", el("th", words.label(row["name"]), scope="row"), *(el("td", shown(row)) for _, shown in columns))
        for row in rows
    )
    table = el("table", el("caption", caption), el("thead", head), el("tbody", *body), class_=kind)
    return el("div", table, class_="wide")
