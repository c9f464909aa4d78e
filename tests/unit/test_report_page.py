"""The page and the CSV of a report: complete, safe against names, and without anything from elsewhere."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from slurmcast.footprint import Site
from slurmcast.report.page import html
from slurmcast.report.plots import columns
from slurmcast.report.rates import Rates
from slurmcast.report.summary import summary
from slurmcast.report.tables import as_csv, show
from slurmcast.report.words import NOTHING, money, number, percent
from slurmcast.store.columns import from_rows
from tests.unit.test_report_figures import row

HOSTILE = "<script>alert(1)</script>\"'&amp;]]>"
HOUR = {"source": "probe", "time": (1800.0, 3600.0, 7200.0), "energy": (0.1, 0.2, 0.4), "limit": 7200}
TRAINING = {"began": 1e5, "labels": 90, "because": HOSTILE, "promoted": True, "reason": "better", "model": "m1"}
LEARNING = {
    "trainings": [TRAINING | {"result": "promoted"}],
    "drift": {"at": 2e5, "alarms": ["31 % of times lie outside"]},
}
VOID = {"meta", "br", "link", "img", "hr", "input"}


def answer(*rows: tuple[Any, ...], learning: Any = None, currency: str = "EUR") -> dict[str, Any]:
    figures = summary([from_rows(rows)] if rows else [], Rates(Site(400.0, None, 1.2, 1.8), 0.3, None, currency))
    scope = {"cluster": "c", "since": 0.0, "until": 1e6, "user": None, "account": None}
    return {**scope, **figures, "learning": learning}


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "-"), (0.0, "0"), (0.0005, "0.000500"), (0.25, "0.250"), (1.5, "1.50"), (1234.5, "1,234.50")],
)
def test_money(value: float | None, said: str) -> None:
    assert money(value) == said


def test_the_cost_is_the_same_in_tile_and_table() -> None:
    made = answer(row(state="COMPLETED", kwh=0.002, **HOUR))
    shown = money(made["total"]["cost"])
    assert shown.startswith("0.000") and html(made).count(shown) > 1


@pytest.mark.parametrize(("top", "told"), [(0.0017, "0.0015"), (0.3, "0.3"), (40_000.0, "40,000"), (5e7, "4e+07")])
def test_numbers_beside_an_axis_have_no_zeros_that_say_nothing(top: float, told: str) -> None:
    assert told in [text.text for text in columns("", [("a", top, 0.0)]).iter("text")]


def several(name: str = "alice", **facts: Any) -> dict[str, Any]:
    rows = [row(user=name, account=name, partition=name, state="COMPLETED", kwh=0.2, **{**HOUR, **facts})] * 12
    return answer(*rows, row(state="FAILED", end=1_000_000), currency=name)


class Read(HTMLParser):
    """Elements and text of a page; that every element is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.text.append(text)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("name", ["alice", HOSTILE, "x" * 500, "\u00e4\u4e16"])
def test_nothing_is_loaded_and_nothing_runs(name: str) -> None:
    page = html(several(name))
    read = Read(page)
    forbidden = {"script", "link", "img", "iframe", "object", "embed", "form", "a", "base", "image", "use", "style"}
    assert sorted(tag for tag, _ in read.tags if tag in forbidden) == ["style"]
    assert not re.search(r"url\(|@import|https?:", page)
    for _, attributes in read.tags:
        assert not [key for key in attributes if key.startswith("on") or key in {"style", "href", "src"}]
    assert any(name in text for text in read.text)


def test_the_policy_allows_the_style_and_no_more() -> None:
    page = html(several())
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = next(each["content"] for each in Read(page).named("meta") if each.get("http-equiv"))
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_everybody_can_read_it() -> None:
    page = html(several())
    read = Read(page)
    assert read.named("html")[0]["lang"] == "en"
    assert page.count("<svg") == page.count("<svg ") == page.count("<desc>") > 5
    assert all(each["role"] == "img" for each in read.named("svg"))
    assert page.count("<table") == page.count("<caption") and all("scope" in each for each in read.named("th"))
    for wanted in ("prefers-color-scheme: dark", "@media print"):
        assert wanted in page


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (answer(), NOTHING),
        (answer(row()), "No completed run had an estimate of its time"),
        (answer(row(elapsed=0.0, gpus=1)), "GPU hours"),
        (answer(row(**HOUR, kwh=1e-9)), "Estimates of energy"),
        (answer(row(**{**HOUR, "source": None})), "(unknown)"),
        (several(source="something-new"), "something-new"),
        (
            answer(row(), learning=LEARNING),
            "31 % of times lie outside",
        ),
    ],
)  # fmt: skip
def test_whatever_there_is(made: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in " ".join(Read(html(made)).text)
    show(made)
    assert made["total"]["runs"] == 0 or "in all" in capsys.readouterr().out


def test_estimates_of_a_partition_are_told_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    prior = {**HOUR, "source": "prior"}
    made = answer(row(**HOUR), row(partition="a6000", **HOUR), row(partition="a6000", **HOUR), row(**prior))
    show(made)
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    at = lines.index(["from", "partition", "runs"])
    assert lines[at + 1 : at + 6] == [
        ["probe", "all", "3"],
        ["probe", "a6000", "2"],
        ["probe", "a100", "1"],
        ["prior", "a100", "1"],
        ["all", "all", "4"],
    ]
    assert "Errors of time by partition and source partition source runs" in " ".join(Read(html(made)).text)


def test_a_terminal_shows_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show(answer(row(user="[red]"), row(user="\x1b[31m")))
    shown = capsys.readouterr().out
    assert "[red]" in shown and "\N{REPLACEMENT CHARACTER}[31m" in shown and "\x1b" not in shown


def test_csv() -> None:
    made = answer(row(kwh=0.5), row(user="=1+1", account='a,"b\nc'), row(user="bob", gpus=2))
    table = list(csv.DictReader(as_csv(made).splitlines(keepends=True)))
    assert [(line["by"], line["name"]) for line in table[:4]] == [
        ("total", ""), ("user", "bob"), ("user", "'=1+1"), ("user", "alice"),
    ]  # fmt: skip
    assert [line["name"] for line in table if line["by"] == "account"] == ["lab", 'a,"b\nc']
    assert [line["energy_kwh"] for line in table[:4]] == ["0.5", "", "", "0.5"]
    assert table[0]["wait_p50_s"] and not table[1]["wait_p50_s"]
    assert next(csv.DictReader(as_csv(answer()).splitlines()))["runs"] == "0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (12.345, "12.3"), (999.6, "1,000"),
     (12345.6, "12,346"), (-3.14159, "-3.14"), (1e-7, "1.00e-07"), (0.9999, "1.00")],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(None, "-"), (0.0, "0 %"), (0.004, "0.4 %"), (0.0996, "10 %"), (0.5, "50 %"), (3.7, "370 %")]
)
def test_percentages(share: float | None, text: str) -> None:
    assert percent(share) == text
