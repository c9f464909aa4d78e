"""The plots of a report as SVG elements; colours are classes of the page's style sheet. Pure.

Each has a title and a sentence for those who can't see it; the page has the same figures in tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from slurmcast.report import words
from slurmcast.report.markup import Element, el
from slurmcast.store.columns import QUANTILES

WIDTH = 920.0
_TIMES = {1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 36e3: "10 h", 345600.0: "4 d"}
_ENERGIES = {
    10.0 ** (3 * thousands + tens): f"{10**tens} {unit}"
    for thousands, unit in enumerate(("mWh", "Wh", "kWh", "MWh", "GWh"), -2)
    for tens in range(3)
}
TICKS: Mapping[str, Mapping[float, str]] = {"time": _TIMES, "energy": _ENERGIES}
PANEL, GAP, LEFT, BELOW = 262.0, 34.0, 58.0, 44.0
"""A square plot, the space between two, and that for an axis's numbers."""


def figure(title: str, described: str, height: float, *marks: Element, width: float = WIDTH) -> Element:
    """An image that shrinks with the page."""
    names = el("title", title), el("desc", described)
    return el("svg", *names, *marks, viewBox=f"0 0 {width:g} {height:g}", width=width, role="img", class_="plot")


def bars(title: str, rows: Sequence[tuple[str, float, float]]) -> Element:
    """Horizontal bars: label, value, and the part of the value that is drawn apart."""
    top = max((value for _, value, _ in rows), default=0.0) or 1.0
    left, right, step, thick = 150.0, 80.0, 24.0, 15.0
    scale = (WIDTH - left - right) / top
    marks = []
    for place, (label, value, apart) in enumerate(rows):
        y = place * step + 4
        middle, end = y + thick / 2 + 4, left + value * scale
        marks += [
            el("text", _short(label), x=left - 8, y=middle, class_="label end"),
            el("rect", x=left, y=y, width=max((value - apart) * scale, 0.0), height=thick, class_="main"),
            el("rect", x=left + (value - apart) * scale, y=y, width=apart * scale, height=thick, class_="apart"),
            el("text", words.number(value), x=end + 6, y=middle, class_="label"),
        ]
    described = "; ".join(f"{label}: {words.number(value)}" for label, value, _ in rows)
    return figure(title, described, len(rows) * step + 6, *marks)


def columns(title: str, rows: Sequence[tuple[str, float | None, float]], height: float = 190.0) -> Element:
    """Vertical bars, as :func:`bars`; a value that isn't known has none."""
    top = max((value or 0.0 for _, value, _ in rows), default=0.0)
    ticks = _ticks(top)
    left, bottom, above = LEFT, height - 26, 10.0
    step = (WIDTH - left - 8) / max(len(rows), 1)
    thick = min(step * 0.72, 72.0)
    scale = (bottom - above) / ticks[-1]
    marks = []
    for tick in ticks:
        y = bottom - tick * scale
        marks.append(el("line", x1=left, x2=WIDTH - 8, y1=y, y2=y, class_="grid"))
        marks.append(el("text", _plain(tick), x=left - 8, y=y + 4, class_="label end"))
    skip = math.ceil(len(rows) / 11)
    for place, (label, value, apart) in enumerate(rows):
        x = left + place * step + (step - thick) / 2
        full, part = (value or 0.0) * scale, apart * scale
        marks.append(el("rect", x=x, y=bottom - full + part, width=thick, height=full - part, class_="main"))
        if part:
            marks.append(el("rect", x=x, y=bottom - full, width=thick, height=part, class_="apart"))
        if place % skip == 0:
            marks.append(el("text", label, x=x + thick / 2, y=bottom + 18, class_="label middle"))
    described = "; ".join(f"{label}: {words.number(value)}" for label, value, _ in rows)
    return figure(title, described, height, *marks)


def scatter(title: str, what: str, cells: Mapping[str, Sequence[Sequence[float]]], names: Sequence[str]) -> Element:
    """Predicted against real, a panel for each source in ``names``: a dot for each cell ``[predicted, real, runs]``."""
    points = [point for name in names for point in cells[name]]
    values = [value for point in points for value in point[:2]]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    scale = PANEL / (high - low)
    most = max(point[2] for point in points)

    def along(value: float) -> float:
        return (math.log10(value) - low) * scale

    ticks = _apart({at: text for at, text in TICKS[what].items() if low < math.log10(at) < high}, along)
    marks = []
    for place, name in enumerate(names):
        left, bottom = LEFT + place * (PANEL + GAP), PANEL + 22
        runs = round(sum(point[2] for point in cells[name]))
        marks += [
            el("text", f"{name}: {words.count(runs)} runs", x=left, y=14, class_="label strong"),
            el("rect", x=left, y=22, width=PANEL, height=PANEL, class_="panel"),
        ]
        for tick, text in ticks.items():
            x, y = left + along(tick), bottom - along(tick)
            marks += [
                el("line", x1=x, x2=x, y1=22, y2=bottom, class_="grid"),
                el("line", x1=left, x2=left + PANEL, y1=y, y2=y, class_="grid"),
                el("text", text, x=x, y=bottom + 15, class_="label middle small"),
            ]
            if place == 0:
                marks.append(el("text", text, x=left - 6, y=y + 4, class_="label end small"))
        for factor, kind in ((1.0, "even"), (2.0, "twice"), (0.5, "twice")):
            off = math.log10(factor) * scale
            start, stop = max(0.0, -off), min(PANEL, PANEL - off)
            ends = {"x1": left + start, "y1": bottom - start - off, "x2": left + stop, "y2": bottom - stop - off}
            marks.append(el("line", class_=kind, **ends))
        for predicted, real, count in cells[name]:
            radius = 1.6 + 3.4 * math.sqrt(count / most)
            x, y = left + along(predicted), bottom - along(real)
            marks.append(el("circle", cx=x, cy=y, r=radius, class_=f"dot {_hue(name)}"))
        marks.append(el("text", "estimated", x=left + PANEL / 2, y=bottom + 34, class_="label middle"))
    marks.append(el("text", "real", x=8, y=14, class_="label"))
    described = f"Estimated (across) against real {what} (up) on logarithmic axes, one panel for each source."
    width = max(LEFT + len(names) * (PANEL + GAP), WIDTH)
    return figure(title, described, PANEL + 22 + BELOW, *marks, width=width)


def calibration(title: str, rows: Sequence[words.Answer]) -> Element:
    """For each source (``name``, ``below``): which share of the real values lay below the 10, 50 and 90 % points."""
    left, bottom = LEFT, PANEL + 12
    marks = [el("rect", x=left, y=12, width=PANEL, height=PANEL, class_="panel")]
    for share in QUANTILES:
        at, text = share * PANEL, words.percent(share)
        marks += [
            el("line", x1=left + at, x2=left + at, y1=12, y2=bottom, class_="grid"),
            el("line", x1=left, x2=left + PANEL, y1=bottom - at, y2=bottom - at, class_="grid"),
            el("text", text, x=left + at, y=bottom + 15, class_="label middle small"),
            el("text", text, x=left - 6, y=bottom - at + 4, class_="label end small"),
        ]
    marks.append(el("line", x1=left, y1=bottom, x2=left + PANEL, y2=12, class_="even"))
    said = []
    for place, row in enumerate(rows):
        name, below = row["name"], row["below"]
        points = [(left + q * PANEL, bottom - share * PANEL) for q, share in zip(QUANTILES, below, strict=True)]
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        marks.append(el("path", d=path, class_=f"line {_hue(name)}"))
        marks += [_mark(place, x, y, _hue(name)) for x, y in points]
        key = left + PANEL + 30, 30 + 24 * place
        marks += [_mark(place, *key, _hue(name)), el("text", name, x=key[0] + 12, y=key[1] + 4, class_="label")]
        shares = ", ".join(words.percent(share) for share in below)
        said.append(f"{name}: {shares} of the real values lay below the points that 10 %, 50 % and 90 % should")
    marks.append(el("text", "should lie below", x=left + PANEL / 2, y=bottom + 34, class_="label middle"))
    middle = bottom - PANEL / 2
    marks.append(el("text", "lay below", x=14, y=middle, class_="label middle", transform=f"rotate(-90 14 {middle:g})"))
    return figure(title, "; ".join(said), PANEL + 12 + BELOW, *marks, width=460.0)


def _mark(place: int, x: float, y: float, hue: str) -> Element:
    """A circle, a square, a diamond or a triangle, so that hues needn't be told apart."""
    if place % 4 == 0:
        return el("circle", cx=x, cy=y, r=4.5, class_=f"mark {hue}")
    corners = (
        ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
        ((0, -5), (5, 4), (-5, 4)),
    )[place % 4 - 1]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return el("polygon", points=points, class_=f"mark {hue}")


def _hue(source: str) -> str:
    return f"hue-{source}" if source in {"probe", "align", "history", "prior"} else "hue-other"


def _short(label: str, most: int = 20) -> str:
    return label if len(label) <= most else label[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _ticks(top: float, about: int = 4) -> list[float]:
    """Round numbers from 0 to ``top`` or a bit above."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [step * k for k in range(math.ceil(top / step - 1e-9) + 1)]


def _plain(tick: float) -> str:
    """A round number without zeros that say nothing: there is little room beside an axis."""
    return words.number(tick) if 1000 <= tick < 1e6 else f"{tick:g}"


def _apart(ticks: Mapping[float, str], along: Callable[[float], float], least: float = 36.0) -> dict[float, str]:
    """Those that don't stand too close to the one before."""
    kept: dict[float, str] = {}
    last = -least
    for at, text in ticks.items():
        if along(at) - last >= least:
            kept[at], last = text, along(at)
    return kept
