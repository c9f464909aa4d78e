"""What a report adds up: sums, quantiles, carbon and cost, errors of estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.footprint import Site
from slurmcast.report.rates import Rates, means
from slurmcast.report.sketch import ERROR, LARGEST, Tally
from slurmcast.report.summary import summary
from slurmcast.report.usage import MOST_ROWS, OTHERS
from slurmcast.series import Series, read_series
from slurmcast.store.columns import Runs, from_rows

NOTHING = Rates(Site())


def row(**facts: Any) -> tuple[Any, ...]:
    """A run of one GPU hour, as the store gives it: nothing is known of its energy, limit or estimate."""
    base: dict[str, Any] = {
        "user": "alice", "account": "lab", "partition": "a100", "state": "COMPLETED", "source": None,
        "submit": 0, "start": 600, "end": 4200, "elapsed": 3600.0, "gpus": 1, "kwh": None, "limit": None,
        "changes": 0, "placed": 0, "time": (None, None, None), "energy": (None, None, None),
    }  # fmt: skip
    *flat, time, energy = (base | facts).values()
    return (*flat, *time, *energy)


def report(*rows: tuple[Any, ...], rates: Rates = NOTHING) -> dict[str, Any]:
    """The figures of runs that come one at a time."""
    return summary((from_rows([each]) for each in rows), rates)


def named(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in rows}


class TestUsage:
    def test_what_was_not_measured_is_not_zero(self) -> None:
        answer = report(row(kwh=0.3), row(user="bob"), row(user="carol", kwh=0.0))
        users = named(answer["by"]["user"])
        assert [users[name]["energy_kwh"] for name in ("alice", "bob", "carol")] == [pytest.approx(0.3), None, 0.0]
        assert [users[name]["measured_runs"] for name in ("alice", "bob", "carol")] == [1, 0, 1]
        assert answer["total"]["measured_gpu_hours"] == 2.0 and answer["total"]["gpu_hours"] == 3.0
        assert answer["total"]["carbon_kg"] is None and answer["total"]["cost"] is None

    def test_nothing_at_all(self) -> None:
        answer = summary([], NOTHING)
        assert answer["total"]["runs"] == 0 and answer["total"]["energy_kwh"] is None
        assert answer["total"]["wait_mean_s"] is None and answer["total"]["wait_p50_s"] is None
        assert answer["estimates"]["time"]["total"]["inside_80"] is None
        assert not any(answer["by"].values())

    def test_lost_and_waiting(self) -> None:
        answer = report(
            row(),
            row(state="TIMEOUT", gpus=4, kwh=1.0, submit=-9400),
            row(state="FAILED", elapsed=1800.0),
            row(state="CANCELLED", submit=900),
        )
        total = answer["total"]
        assert (total["lost_runs"], total["lost_gpu_hours"], total["lost_energy_kwh"]) == (3, 5.5, 1.0)
        assert total["wait_mean_s"] == pytest.approx((600 + 10000 + 600 + 0) / 4), "a clock that went back is no wait"
        assert total["wait_p50_s"] == pytest.approx(600, rel=ERROR)
        assert total["wait_p90_s"] == pytest.approx(10000, rel=ERROR)
        assert named(answer["by"]["state"])["COMPLETED"]["lost_energy_kwh"] is None

    def test_changes(self) -> None:
        answer = report(row(changes=2, placed=1), row(changes=1), row())
        assert [answer["total"][key] for key in ("changed_runs", "changes", "placed_runs")] == [2, 3, 1]

    def test_rows_are_ranked_and_few(self) -> None:
        rows = [row(user=f"u{n}", gpus=n) for n in range(1, MOST_ROWS + 4)]
        found = report(*rows)["by"]["user"]
        assert len(found) == MOST_ROWS + 1
        assert [each["name"] for each in found[:2]] == [f"u{MOST_ROWS + 3}", f"u{MOST_ROWS + 2}"]
        assert (found[-1]["name"], found[-1]["runs"], found[-1]["gpu_hours"]) == (OTHERS, 3, 1.0 + 2.0 + 3.0)

    @pytest.mark.parametrize(
        ("ended", "monday"),
        [
            (datetime(2026, 11, 30, 0, 0, 0), "2026-11-30"),
            (datetime(2026, 11, 29, 23, 59, 59), "2026-11-23"),
            (datetime(2027, 1, 1, 12, 0, 0), "2026-12-28"),
        ],
    )
    def test_weeks_begin_on_monday(self, ended: datetime, monday: str) -> None:
        assert [each["name"] for each in report(row(end=int(ended.timestamp())))["by"]["week"]] == [monday]


class TestRates:
    def test_flat(self) -> None:
        rates = Rates(Site(400.0, None, 1.5, 2.0), 0.25, None, "EUR")
        total = report(row(kwh=2.0), row(), rates=rates)["total"]
        assert total["carbon_kg"] == pytest.approx(2.0 * 1.5 * 0.4)
        assert total["cost"] == pytest.approx(2.0 * 1.5 * 0.25)
        assert total["water_l"] == pytest.approx(4.0), "WUE is per kWh of the computers"
        assert (total["carbon_runs"], total["cost_runs"], total["water_runs"]) == (1, 1, 1)

    @pytest.mark.parametrize(
        ("start", "end", "flat", "cost"),
        [
            (0, 3600, None, 1.0),
            (1800, 5400, None, 1.5),
            (0, 7200, None, 1.5),
            (3600, 14400, 5.0, (2.0 + 5.0 + 5.0) / 3),
            (3600, 14400, None, None),
            (90000, 93600, None, None),
            (90000, 93600, 5.0, 5.0),
        ],
    )
    def test_prices_of_the_time(self, start: int, end: int, flat: float | None, cost: float | None) -> None:
        prices = read_series("time,price_per_kwh\n0,1\n3600,2\n", ("price_per_kwh",))
        total = report(row(kwh=1.0, start=start, end=end), rates=Rates(Site(), flat, prices))["total"]
        assert total["cost"] == (None if cost is None else pytest.approx(cost))
        assert total["cost_runs"] == (cost is not None)

    @given(
        steps=st.lists(st.tuples(st.floats(1, 1e4), st.floats(0, 1e4), st.floats(-9, 999)), min_size=1, max_size=9),
        start=st.floats(-1e4, 1e5),
        span=st.floats(0, 1e5),
        otherwise=st.floats(0, 1e3),
    )
    def test_means_are_those_of_the_series(
        self, steps: list[tuple[float, float, float]], start: float, span: float, otherwise: float
    ) -> None:
        lengths, gaps, values = np.array(steps).T
        starts = np.cumsum(lengths + gaps) - lengths
        series = Series(starts, starts + lengths, values)
        expected = series.mean(start, start + span, otherwise)
        found = means(series, np.array([start]), np.array([start + span]), otherwise)
        assert found[0] == pytest.approx(expected, rel=1e-6, abs=2e-3)


class TestEstimates:
    HOUR = (1800.0, 3600.0, 7200.0)

    def test_places_and_errors(self) -> None:
        rows = [
            row(source="probe", time=self.HOUR, elapsed=elapsed) for elapsed in (900.0, 3000.0, 3600.0, 4500.0, 9e3)
        ]
        figures = report(*rows)["estimates"]["time"]["total"]
        assert figures["runs"] == 5 and figures["inside_80"] == pytest.approx(3 / 5)
        assert figures["below"] == pytest.approx([1 / 5, 3 / 5, 4 / 5])
        ratios = report(*rows)["estimates"]["time"]["ratios"]
        assert ratios == {"edges": [0.25, 0.5, 0.8, 1.25, 2.0, 4.0], "runs": [0, 1, 1, 2, 0, 1, 0]}
        assert figures["median_error"] == pytest.approx(0.2, rel=2 * ERROR), "of 3, 0.2, 0, 0.2 and 0.6"
        assert figures["p90_error"] == pytest.approx(3.0, rel=2 * ERROR)
        assert figures["ratio"] == pytest.approx([0.4, 1.0, 4.0], rel=2 * ERROR)

    def test_the_ends_of_an_interval_are_in_it(self) -> None:
        rows = [row(source="probe", time=self.HOUR, elapsed=elapsed) for elapsed in (1800.0, 7200.0)]
        assert report(*rows)["estimates"]["time"]["total"]["inside_80"] == 1.0

    @pytest.mark.parametrize(
        "facts",
        [
            {"state": "TIMEOUT"},
            {"state": "FAILED"},
            {"time": (None, None, None)},
            {"elapsed": 0.0},
        ],
    )
    def test_not_compared(self, facts: dict[str, Any]) -> None:
        answer = report(row(**{"source": "probe", "time": self.HOUR, **facts}))["estimates"]
        assert answer["time"]["total"]["runs"] == 0 and answer["time"]["cells"] == {}

    def test_energy_only_where_it_was_measured(self) -> None:
        known = {"source": "probe", "time": self.HOUR, "energy": (0.1, 0.2, 0.3)}
        answer = report(row(**known), row(**known, kwh=0.25), row(source="prior", time=self.HOUR, kwh=0.2))["estimates"]
        assert answer["time"]["total"]["runs"] == 3 and answer["energy"]["total"]["runs"] == 1
        assert (answer["completed_runs"], answer["estimated_runs"]) == (3, 3)

    def test_by_source_and_partition_of_each(self) -> None:
        rows = [
            row(source="probe", time=self.HOUR),
            row(source="prior", time=self.HOUR, partition="a6000"),
            row(source="probe", time=self.HOUR, partition="a6000"),
        ]
        figures = report(*rows)["estimates"]["time"]
        assert [(each["name"], each["runs"]) for each in figures["source"]] == [("probe", 2), ("prior", 1)]
        told = [(each["name"], each["source"], each["runs"]) for each in figures["partition"]]
        assert told == [("a100", "probe", 1), ("a6000", "prior", 1), ("a6000", "probe", 1)]
        assert sum(cell[2] for cells in figures["cells"].values() for cell in cells) == 3
        (predicted, real, count), *others = figures["cells"]["probe"]
        assert predicted == pytest.approx(3600, rel=0.16) and real == pytest.approx(3600, rel=0.16)
        assert count == 2 and not others

    def test_time_limits(self) -> None:
        rows = [
            row(limit=7200),
            row(limit=14400, gpus=2, source="probe", time=self.HOUR),
            row(limit=36000, state="FAILED"),
            row(limit=3000),
        ]
        limits = report(*rows)["estimates"]["limits"]
        assert limits["runs"] == 3 and limits["unused_gpu_hours"] == pytest.approx(1 + 2 * 3)
        assert limits["limit_over_real"] == pytest.approx(2.0, rel=ERROR)
        assert limits["limit_over_real_estimated"] == pytest.approx(4.0, rel=ERROR)
        assert limits["p90_over_real"] == pytest.approx(2.0, rel=ERROR)
        assert limits["used"] == [0, 0, 1, 0, 0, 1, 0, 0, 0, 1], "what ran over its limit used all of it"


class TestTally:
    @given(values=st.lists(st.floats(1e-3, 1e9), min_size=1), share=st.floats(0.01, 1))
    def test_quantiles_are_right_within_one_percent(self, values: list[float], share: float) -> None:
        tally = Tally()
        for value in values:
            tally.add(["x"], {"n": np.ones(1)}, {"v": np.array([value])})
        expected = sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]
        assert tally.quantiles("x", "v", [share]) == [pytest.approx(expected, rel=ERROR * 1.001)]

    def test_nan_zero_and_huge(self) -> None:
        tally = Tally()
        tally.add(["x", "x", "x", "y"], {"n": np.ones(4)}, {"v": np.array([0.0, np.nan, 1e300, np.nan])})
        low, high = tally.quantiles("x", "v", (0.5, 1))
        assert low == 0.0 and high == pytest.approx(LARGEST, rel=ERROR)
        assert tally.quantiles("y", "v", [0.5]) == [None] and tally.quantiles("z", "v", [0.5]) == [None]

    def test_labels_may_come_late(self) -> None:
        tally = Tally()
        tally.add(["x"], {"n": np.array([1.0])})
        tally.add(["y", "x"], {"n": np.array([10.0, 100.0])})
        assert [tally.sum(label, "n") for label in ("x", "y", "z")] == [101.0, 10.0, 0.0]


def test_columns_of_rows() -> None:
    runs: Runs = from_rows([row(user=None, kwh=0.5, time=(1, 2, 3), placed=1), row(energy=(4, 5, 6))])
    assert list(runs.user) == ["", "alice"] and runs.placed.tolist() == [True, False]
    assert runs.time_s[0].tolist() == [1, 2, 3] and runs.kwh[1].tolist() == [4, 5, 6]
    assert runs.energy_kwh[0] == 0.5 and math.isnan(runs.energy_kwh[1]) and math.isnan(runs.time_s[1, 0])
