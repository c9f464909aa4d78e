"""Energy weighted by a series of prices, against the series' own means, and what it does to the order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.policy.patient import Patient
from slurmcast.policy.price import Priced, energy_weights
from slurmcast.policy.value import ValueRule
from slurmcast.series import PRICE, Series, SeriesError, read_series
from slurmcast.simulate.engine import run
from slurmcast.simulate.executors import skip
from tests.unit.test_simulate_engine import CLUSTER, workload

HOUR = 3600.0


def series(*prices: float) -> Series:
    """Hour by hour from 0."""
    rows = "".join(f"{n * HOUR},{price}\n" for n, price in enumerate(prices))
    return read_series(f"time,{PRICE}\n{rows}", (PRICE,))


@pytest.mark.parametrize(
    ("prices", "now_s", "time_s", "weight"),
    [
        ((50, 150), 0, HOUR, 0.5),
        ((50, 150), HOUR, HOUR, 1.5),
        ((50, 150), 0, 2 * HOUR, 1.0),
        ((50, 150), HOUR / 2, HOUR, 1.0),
        ((50, 150), HOUR, np.nan, 1.5),  # a time that isn't known: the price now
        ((50, 150), 5 * HOUR, HOUR, 1.0),  # the series is over
        ((50, 150), HOUR, 2 * HOUR, 1.25),  # half of the run is
        ((-100, 100), 0, HOUR, 0.0),
        ((-100, 100), HOUR, HOUR, 2.0),
        ((0, 0), 0, HOUR, 1.0),
        ((-1, -1), 0, HOUR, 1.0),
    ],
)
def test_weights_by_hand(prices: tuple[float, ...], now_s: float, time_s: float, weight: float) -> None:
    assert energy_weights(series(*prices), now_s, np.array([[time_s]])) == pytest.approx(weight)


@given(
    st.lists(st.tuples(st.integers(60, 7200), st.floats(0, 1000)), min_size=1, max_size=30),
    st.integers(-100000, 200000),
    st.lists(st.integers(1, 200000), min_size=1, max_size=5),
)
def test_weights_are_the_means_of_the_series(rows: list[tuple[int, float]], now_s: int, spans: list[int]) -> None:
    times = np.cumsum([step for step, _ in rows])
    text = "time,g_per_kwh\n" + "".join(f"{t},{g}\n" for t, (_, g) in zip(times, rows, strict=True))
    found = read_series(text)
    weights = energy_weights(found, now_s, np.array(spans, float))
    if found.overall > 0:
        means = [found.mean(now_s, now_s + span) / found.overall for span in spans]
        assert weights == pytest.approx(means, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "values"),
    [("time,price_per_kwh\n0,-5\n", [-5.0]), ("time,price_per_kwh,g_per_kwh\n0,1,2\n", [2.0])],
)
def test_a_price_may_be_negative_and_carbon_comes_first(text: str, values: list[float]) -> None:
    assert read_series(text, ("g_per_kwh", PRICE)).per_kwh.tolist() == values


def test_a_table_without_a_known_column_is_refused() -> None:
    with pytest.raises(SeriesError, match="time, g_per_kwh or price_per_kwh"):
        read_series("time,euro\n0,1\n", ("g_per_kwh", PRICE))


# Two jobs of 4 GPUs for the one free type: the first is short and hungry, the second long and thrifty.
def two_jobs(at: float) -> list[int]:
    jobs = workload([at, at], [4, 4], [(1000.0, 1.0), (1500.0, 1.0)], [(True, False)] * 2)
    jobs.predicted_kwh[:, 0] = [1.0, 0.1]
    priced = Priced(ValueRule(1e-4), series(*[10] * 12, *[190] * 12))
    start_s = run(jobs, CLUSTER, priced, skip).start_s
    return np.argsort(start_s).tolist()


def test_dear_hours_turn_the_order_to_the_thrifty_job() -> None:
    assert two_jobs(at=1 * HOUR) == [0, 1], "energy counts a tenth"
    assert two_jobs(at=14 * HOUR) == [1, 0], "energy counts 1.9 times"


def test_the_patient_rule_waits_out_dear_hours() -> None:
    # The first job fills the thrifty type; the second may start at once on the hungry one, or wait.
    jobs = workload([0, 1], [8, 4], [(np.nan, 7200.0), (3000.0, 4000.0)], [(False, True), (True, True)])
    jobs.predicted_kwh[1] = [5.0, 1.0]
    starts = {
        price: run(jobs, CLUSTER, Priced(Patient(1.2e-5), series(price, price, 2 * 100 - price, 100)), skip).start_s[1]
        for price in (10.0, 190.0)
    }
    assert starts == {10.0: 1.0, 190.0: 7200.0}
