"""Carbon and water from energy, against sums done by hand."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast import show
from slurmcast.config import ConfigError, parse
from slurmcast.footprint import Site
from slurmcast.model import Interval
from slurmcast.series import SeriesError, read_series

ENERGY, HOUR = Interval(1.0, 2.0, 4.0), 3600.0
ONE_HOUR = Interval(1800.0, HOUR, 7200.0)
DAY = "time,g_per_kwh\n" + "".join(f"{n * 3600},{100 * n}\n" for n in range(24))
"""From 0:00 to 24:00 on 1 January 1970: 0, 100, ... 2300 g/kWh, hour by hour; 1150 on the whole."""


@pytest.mark.parametrize(
    ("site", "carbon_kg", "water_l"),
    [
        (Site(), None, None),
        (Site(pue=1.5), None, None),
        (Site(g_per_kwh=400.0), (0.4, 0.8, 1.6), None),
        (Site(g_per_kwh=400.0, pue=1.5), (0.6, 1.2, 2.4), None),
        (Site(g_per_kwh=0.0), (0.0, 0.0, 0.0), None),
        (Site(wue_l_per_kwh=1.8), None, (1.8, 3.6, 7.2)),
        (Site(wue_l_per_kwh=1.8, pue=1.5), None, (1.8, 3.6, 7.2)),
    ],
)
def test_numbers(site: Site, carbon_kg: Any, water_l: Any) -> None:
    carbon, water = site.carbon_kg(ENERGY, ONE_HOUR, 0.0), site.water_l(ENERGY)
    assert carbon is None if carbon_kg is None else astuple(carbon) == pytest.approx(carbon_kg)
    assert water is None if water_l is None else astuple(water) == pytest.approx(water_l)


def test_what_is_not_known_stays_unknown() -> None:
    site = Site(400.0, read_series(DAY), 1.2, 1.8)
    assert site.carbon_kg(None, ONE_HOUR, 0.0) is None and site.water_l(None) is None
    assert site.carbon_kg(ENERGY, None, 0.0) is None, "when it runs matters"
    assert Site(400.0).carbon_kg(ENERGY, None, 0.0) is not None, "here it doesn't"


@pytest.mark.parametrize(
    ("start", "end", "otherwise", "mean"),
    [
        (0, 3600, None, 0.0),
        (3600, 7200, None, 100.0),
        (3600, 3600, None, 100.0),
        (5400, 9000, None, 150.0),
        (0, 86400, None, 1150.0),
        (23 * 3600, 25 * 3600, None, (2300 + 1150) / 2),
        (23 * 3600, 25 * 3600, 500.0, (2300 + 500) / 2),
        (-3600, 3600, 500.0, 250.0),
        (100 * 86400, 101 * 86400, None, 1150.0),
        (-86400, 2 * 86400, 1000.0, (1150 + 2 * 1000) / 3),
    ],
)
def test_the_mean_over_the_running_time(start: float, end: float, otherwise: float | None, mean: float) -> None:
    assert read_series(DAY).mean(start, end, otherwise) == pytest.approx(mean)


def test_carbon_takes_the_time_at_which_the_job_runs() -> None:
    site = Site(series=read_series(DAY), pue=2.0)
    morning = site.carbon_kg(ENERGY, Interval(60.0, 2 * HOUR, 9 * HOUR), 3 * HOUR)
    assert morning is not None
    assert astuple(morning) == pytest.approx((0.7, 1.4, 2.8)), "3:00 to 5:00: 350 g/kWh, twice"


def test_a_gap_is_no_value_and_a_late_one_holds_twice_the_usual_step() -> None:
    series = read_series("time,g_per_kwh\n0,100\n3600,100\n7200,100\n36000,300\n39600,300\n")
    assert series.mean(7200, 14400, 0.0) == pytest.approx(100)
    assert series.mean(14400, 36000, 7.0) == pytest.approx(7)
    assert series.mean(10800, 18000, 0.0) == pytest.approx(50)
    assert series.overall == pytest.approx((4 * 100 + 2 * 300) / 6)


@pytest.mark.parametrize(
    "text",
    [
        "time,g_per_kwh\n2026-03-01T00:00Z,400\n2026-03-01T01:00Z,200\n",
        "time,g_per_kwh\r\n2026-03-01T01:00+01:00,400\r\n2026-03-01 02:00:00+01:00,200.0\r\n",
        'zone,"g_per_kwh",time\nDE,400,1772323200\nDE,200,1772326800\n',
    ],
)
def test_ways_to_write_a_series(text: str) -> None:
    series = read_series(text)
    assert series.starts.tolist() == [1772323200, 1772326800] and series.per_kwh.tolist() == [400, 200]
    assert series.ends.tolist() == [1772326800, 1772330400]


def test_a_single_value_holds_for_an_hour() -> None:
    assert read_series("time,g_per_kwh\n0,400\n").mean(0, 7200, 0.0) == pytest.approx(200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: must name the columns time, g_per_kwh"),
        ("time,carbon\n0,1\n", "line 1: must name"),
        ("time,g_per_kwh\n", "no value"),
        ("time,g_per_kwh\n2026-03-01T00:00,1\n", "line 2: time '2026-03-01T00:00': must be like"),
        ("time,g_per_kwh\nnan,1\n", "line 2: time 'nan'"),
        ("time,g_per_kwh\nyesterday,1\n", "line 2: time 'yesterday'"),
        ("time,g_per_kwh\n0,1\n3600\n", "line 3: g_per_kwh None: must be a number"),
        ("time,g_per_kwh\n0,-1\n", "line 2: g_per_kwh '-1'"),
        ("time,g_per_kwh\n0,inf\n", "line 2: g_per_kwh 'inf'"),
        ("time,g_per_kwh\n0,1e300\n", "line 2: g_per_kwh '1e300'"),
        ("time,g_per_kwh\n1772323200000,1\n", "line 2: time '1772323200000': must be like .*or Unix seconds"),
        ("time,g_per_kwh\n0,\n", "line 2: g_per_kwh ''"),
        ("time,g_per_kwh\n0,1\n0,2\n", "line 3: times must ascend"),
        ('time,g_per_kwh\n"0"x,1\n', "after line 1: "),
    ],
)
def test_what_can_not_be_read(text: str, message: str) -> None:
    with pytest.raises(SeriesError, match=message):
        read_series(text)


@given(
    st.lists(st.tuples(st.integers(60, 7200), st.floats(0, 1000)), min_size=1, max_size=30),
    st.integers(-100000, 200000),
    st.integers(1, 200000),
    st.floats(0, 1000),
)
def test_the_mean_is_what_adding_up_minute_by_minute_gives(
    rows: list[tuple[int, float]], start: int, length: int, otherwise: float
) -> None:
    times = np.cumsum([step // 60 * 60 for step, _ in rows])
    series = read_series("time,g_per_kwh\n" + "".join(f"{t},{g}\n" for t, (_, g) in zip(times, rows, strict=True)))
    start, length = start // 60 * 60, length // 60 * 60 + 60
    minutes = np.arange(start, start + length, 60)
    total = 0.0
    for minute in minutes:
        holds = [g for a, b, g in zip(series.starts, series.ends, series.per_kwh, strict=True) if a <= minute < b]
        assert len(holds) <= 1
        total += holds[0] if holds else otherwise
    # The median of two steps may lie on a half minute, of which a value's end then does.
    assert series.mean(start, start + length, otherwise) == pytest.approx(total / len(minutes), abs=31 * 1000 / length)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pue": 0.9}, "footprint.pue = 0.9: must be 1 to 10"),
        ({"pue": float("nan")}, "footprint.pue = nan"),
        ({"g_per_kwh": -1}, "footprint.g_per_kwh = -1.0: must be 0 to"),
        ({"wue_l_per_kwh": -1}, "footprint.wue_l_per_kwh"),
        ({"intensity_file": "grid.csv"}, "footprint.intensity_file = 'grid.csv': must be an absolute path"),
        ({"carbon": 1}, "unknown key footprint.carbon"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse({"footprint": settings})


def estimate(**amounts: Any) -> dict[str, Any]:
    known = {"p10": 1.0, "p50": 2.0, "p90": 4.0}
    base = {"partition": "a100", "gpus": 1, "time_s": known, "energy_kwh": known, "source": "prior"}
    return {**base, "carbon_kg": None, "water_l": None, **amounts}


@pytest.mark.parametrize(
    ("estimates", "words", "without"),
    [
        ([estimate()], ["2 kWh (1 to 4)"], ["carbon", "water", "CO2"]),
        ([estimate(carbon_kg={"p10": 0.4, "p50": 0.8, "p90": 1.6})], ["carbon", "0.8 kg CO2e (0.4 to 1.6)"], ["water"]),
        ([estimate(), estimate(water_l={"p10": 1, "p50": 2, "p90": 3})], ["water", "2 L (1 to 3)", "unknown"], ["CO2"]),
    ],
)
def test_the_tables_show_what_is_known(
    estimates: Any, words: list[str], without: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show.prediction({"estimates": estimates, "made_from": "script only", "sources": []})
    printed = capsys.readouterr().out
    assert all(word in printed for word in words) and not any(word in printed for word in without)
