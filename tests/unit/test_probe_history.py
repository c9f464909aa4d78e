"""History: estimates from the submitter's own runs, and when they are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
import pytest

from slurmcast.model import Estimate, Interval, Source
from slurmcast.probe import gpus
from slurmcast.probe.choice import choose
from slurmcast.probe.history import Kin, Run, history, t90

TYPES = {"fast": "a100", "slow": "a6000"}
NUMBERS = {"epochs": 10.0, "batch_size": 32.0, "gpus": 1.0, "time_limit_s": 3600.0}


def run(
    time_s: float = 100.0,
    kin: Kin = Kin.WORK,
    gpu_type: str = "a100",
    energy_kwh: float | None = None,
    gpus: int = 1,
    **numbers: float,
) -> Run:
    return Run(kin, {**NUMBERS, **numbers}, gpus, gpu_type, time_s, energy_kwh, ended=0.0)


def asked(*runs: Run, types: Mapping[str, str] = TYPES, gpus: int = 1, **numbers: float) -> dict[str, Estimate]:
    where = dict.fromkeys(types, gpus)
    return {e.partition: e for e in history({**NUMBERS, **numbers}, where, types, runs)}


def median(estimate: Estimate) -> float | None:
    return estimate.time_s.p50 if estimate.time_s else None


def width(interval: Interval | None) -> float:
    assert interval is not None
    return math.log(interval.p90 / interval.p10)


def test_the_median_is_the_geometric_mean_of_the_runs() -> None:
    found = asked(run(100), run(400))["fast"]
    assert (median(found), found.source, found.energy_kwh) == (pytest.approx(200), Source.HISTORY, None)


def test_without_runs_of_use_nothing_is_known() -> None:
    for found in (asked(), asked(run(gpus=4)), asked(run(kin=Kin.NAME, batch_size=256.0))):
        assert {(e.time_s, e.source) for e in found.values()} == {(None, Source.UNKNOWN)}


@pytest.mark.parametrize(
    ("ran", "job", "factor"),
    [
        ({"epochs": 10}, {"epochs": 30}, 3),
        ({"epochs": 10, "folds": 5}, {"epochs": 20, "folds": 10}, 4),
        ({"epochs": 10, "steps": 5}, {"epochs": 10, "steps": 10}, 1),  # steps of an epoch, or ignored for it
        ({"batch_size": 32}, {"batch_size": 64}, 1),
        ({"batch_size": 32}, {"batch_size": 96}, None),
        ({"epochs": 10}, {"epochs": 110}, None),
        ({"layers": 4}, {}, None),
        ({}, {"layers": 4}, None),
        ({"time_limit_s": 60}, {"time_limit_s": 86400}, 1),
    ],
)
@pytest.mark.parametrize("kin", [Kin.SCRIPT, Kin.NAME])
def test_times_are_scaled_by_the_amount_of_work(
    ran: dict[str, float], job: dict[str, float], factor: float | None, kin: Kin
) -> None:
    found = median(asked(run(100, kin, **ran), **job)["fast"])
    assert found == (None if factor is None else pytest.approx(100 * factor))


def test_steps_count_where_no_epochs_are_named() -> None:
    past = Run(Kin.SCRIPT, {"steps": 1000.0}, 1, "a100", 100.0, None, 0.0)
    (found,) = history({"steps": 2000.0}, {"fast": 1}, TYPES, [past])
    assert median(found) == pytest.approx(200)


def test_the_nearest_kin_counts_alone() -> None:
    runs = [run(100, Kin.WORK), run(300, Kin.SCRIPT), run(900, Kin.NAME)]
    assert [median(asked(*runs[n:])["fast"]) for n in range(3)] == pytest.approx([100, 300, 900])
    assert median(asked(run(100, Kin.SCRIPT, batch_size=500.0), run(900, Kin.NAME))["fast"]) == pytest.approx(900)


def test_intervals_widen_with_few_runs_far_kin_and_stretch() -> None:
    widths = [width(asked(*runs)["fast"].time_s) for runs in ([run()] * 30, [run()] * 5, [run()] * 2, [run()])]
    assert widths == sorted(widths) and widths[0] > 0
    kins = [width(asked(run(kin=kin))["fast"].time_s) for kin in Kin]
    assert kins == sorted(kins)
    near, far = (width(asked(run(kin=Kin.SCRIPT), epochs=epochs)["fast"].time_s) for epochs in (10.0, 80.0))
    assert near < far


def test_intervals_hold_four_in_five() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, 20):
        inside = []
        for _ in range(600):
            spread = math.sqrt(2 * 0.15**2 / rng.chisquare(2))  # scripts differ in how far their repeats spread
            times = 100 * np.exp(rng.normal(0, spread, count + 1))
            time_s = asked(*(run(float(t)) for t in times[1:]))["fast"].time_s
            assert time_s is not None
            inside.append(time_s.p10 <= times[0] <= time_s.p90)
        assert 0.76 < np.mean(inside) < 0.84


def test_another_type_takes_the_published_ratio_with_a_wider_interval() -> None:
    found = asked(run(100), run(110))
    ratio = gpus.ratio("a100", "a6000")
    assert ratio is not None and found["fast"].time_s and found["slow"].time_s
    assert found["slow"].time_s.p50 / found["fast"].time_s.p50 == pytest.approx(math.exp(ratio.log))
    assert width(found["slow"].time_s) > width(found["fast"].time_s)
    own = asked(run(100), run(110), run(500, gpu_type="a6000"))
    assert median(own["slow"]) == pytest.approx(500)


def test_a_type_without_a_published_ratio_is_as_slow_as_the_slowest() -> None:
    found = asked(run(100), types={**TYPES, "gap": "homemade"})
    assert median(found["gap"]) == median(found["slow"])
    assert width(found["gap"].time_s) > width(found["slow"].time_s)
    lonely = asked(run(100, gpu_type="homemade"), types={"here": "homemade", "there": "other"})
    assert median(lonely["here"]) == median(lonely["there"]) == pytest.approx(100)


def test_energy_is_that_of_the_measured_runs() -> None:
    found = asked(run(3600, energy_kwh=0.6, gpus=2), run(3600, gpus=2), gpus=2)
    fast, slow = found["fast"].energy_kwh, found["slow"].energy_kwh
    assert fast and slow and found["slow"].time_s
    assert fast.p50 == pytest.approx(0.6)
    a100, a6000 = gpus.find("a100"), gpus.find("a6000")
    assert a100 and a6000
    power = 0.3 * a6000.power_w / a100.power_w
    assert slow.p50 == pytest.approx(found["slow"].time_s.p50 / 3600 * power * 2)
    assert width(slow) > width(found["slow"].time_s)
    assert asked(run(energy_kwh=0.1), types={"here": "a100", "gap": "homemade"})["gap"].energy_kwh is None


def test_shared_gpus_have_no_energy() -> None:
    (found,) = history(NUMBERS, {"fast": 1}, TYPES, [run(energy_kwh=1.0)], shared=True)
    assert found.time_s and found.energy_kwh is None


@pytest.mark.parametrize(("freedom", "value"), [(2, 1.886), (3, 1.638), (5, 1.476), (10, 1.372), (30, 1.310)])
def test_quantiles_of_t_are_those_of_the_tables(freedom: int, value: float) -> None:
    assert t90(freedom) == pytest.approx(value, rel=0.005)
    assert t90(1e9) == pytest.approx(NormalDist().inv_cdf(0.9))


def made(source: Source, **widths: float | None) -> tuple[Estimate, ...]:
    """Estimates whose p90 / p10 is given by partition, None: unknown."""
    return tuple(
        Estimate(name, 1, Interval(1 / w, 1, w), None, source)
        if w is not None
        else Estimate(name, 1, None, None, Source.UNKNOWN)
        for name, w in widths.items()
    )


@pytest.mark.parametrize(
    ("told", "guessed", "news", "chosen"),
    [
        ({}, {}, False, Source.PRIOR),
        ({"a": None}, {}, True, Source.PRIOR),
        ({"a": None}, {"a": None}, True, Source.PRIOR),
        ({"a": 2}, {}, False, Source.HISTORY),
        ({"a": 2}, {"a": None}, False, Source.HISTORY),
        ({"a": None}, {"a": 9}, True, Source.PROBE),
        ({"a": 2}, {"a": 3}, True, Source.HISTORY),
        ({"a": 2}, {"a": 3}, False, Source.PROBE),
        ({"a": 4}, {"a": 3}, True, Source.PROBE),
        ({"a": 2, "b": None}, {"a": 3, "b": 3}, True, Source.PROBE),
        ({"a": 2, "b": 2}, {"a": 3, "b": None}, True, Source.HISTORY),
        ({"a": 2, "b": 9}, {"a": 3, "b": 3}, True, Source.PROBE),
    ],
)
def test_one_source_is_chosen(
    told: dict[str, float | None], guessed: dict[str, float | None], news: bool, chosen: Source
) -> None:
    prior = made(Source.PRIOR, a=100)
    found = choose(prior, made(Source.HISTORY, **told), made(Source.PROBE, **guessed), news=news)
    assert {e.source for e in found if e.time_s} == {chosen}
