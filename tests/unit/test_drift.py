"""Whether lost coverage is found, and how often it is where nothing was lost; when to train."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from slurmcast.config import TrainConfig
from slurmcast.drift.cusum import cusum, threshold
from slurmcast.drift.due import due
from slurmcast.drift.figures import ALL, alarms, table, wilson
from slurmcast.model import DAY_S, Estimate, Interval, Outcome, Source
from slurmcast.store.promises import Promise

APART = 500
"""About how many observations are to pass until a false alarm."""


def promise(
    number: int,
    inside: bool = True,
    key: str | None = None,
    partition: str = "a100",
    source: Source = Source.PROBE,
    ended: float | None = None,
    energy_inside: bool | None = None,
) -> Promise:
    """A run of 100 s and, where ``energy_inside`` says something, of 1 kWh."""
    time_s = Interval(90, 100, 110) if inside else Interval(200, 400, 800)
    energy = None if energy_inside is None else Interval(0.9, 1, 1.1) if energy_inside else Interval(2, 3, 4)
    known = source not in (Source.PRIOR, Source.UNKNOWN)
    estimate = Estimate(partition, 1, time_s if known else None, energy, source)
    at = int(1e6 + 60 * number if ended is None else ended)
    kwh = None if energy_inside is None else 1.0
    outcome = Outcome(number, 0, partition, partition, 1, "COMPLETED", at - 100, at, 100.0, kwh)
    return Promise(key or f"work {number}", "model", estimate, outcome)


def outside(rng: np.random.Generator, share: float, count: int, first: int = 0) -> list[Promise]:
    return [promise(first + i, not missed) for i, missed in enumerate(rng.random(count) < share)]


def first_alarm(promises: Sequence[Promise], most: int) -> int:
    """How many promises it took until the alarm, ``most`` where there was none."""
    found = alarms(promises, 0.0, APART)
    return min((round((alarm.since - 1e6) / 60) for alarm in found), default=most)


def test_the_sum_is_the_log_likelihood_ratio() -> None:
    level = cusum([1, 1, 0, 1], promised=0.2, risen=0.4, threshold=1.0)
    assert level.now == pytest.approx(3 * math.log(2) + math.log(0.6 / 0.8))
    assert level.crossed == 1
    assert level.rose == 0
    assert cusum([0] * 50, 0.2, 0.4, 1.0).now == 0
    assert cusum([0] * 50 + [1, 1], 0.2, 0.4, 1.0).crossed == 51  # a good past is no credit


@pytest.mark.parametrize(("promised", "observations"), [(0.2, 100), (0.2, 500), (0.05, 200)])
def test_the_threshold_keeps_false_alarms_as_rare_as_asked(promised: float, observations: int) -> None:
    height = threshold(promised, promised + 0.2, observations)
    runs = []
    for seed in range(100):
        values = np.random.default_rng(seed).random(20 * observations) < promised
        crossed = cusum(values, promised, promised + 0.2, height).crossed
        runs.append(len(values) if crossed is None else crossed + 1)
    assert observations < np.mean(runs) < 5 * observations


def test_the_rise_begins_after_the_last_zero() -> None:
    level = cusum([1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0], 0.2, 0.4, 1.5)
    assert (level.crossed, level.rose) == (8, 5), "what comes after the crossing moves nothing"
    assert cusum([1, 0, 0, 0, 0, 1], 0.2, 0.4, 5.0).rose == 5


@pytest.mark.parametrize("seed", range(5))
def test_when_it_changed_is_told_to_some_observations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (found,) = alarms([*outside(rng, 0.1, 200), *outside(rng, 0.8, 40, first=200)], 0.0, APART)
    assert abs((found.changed - 1e6) / 60 - 199) <= 6
    at_once = [promise(i, inside=False) for i in range(40)]
    (found,) = alarms(at_once, 0.0, APART)
    assert found.changed == at_once[0].outcome.start_time


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("share", "within"), [(0.6, 80), (1.0, 15)])
def test_lost_coverage_is_found(seed: int, share: float, within: int) -> None:
    rng = np.random.default_rng(seed)
    good = outside(rng, 0.2, 200)
    assert not alarms(good, 0.0, APART)
    (found,) = alarms([*good, *outside(rng, share, within, first=200)], 0.0, APART)
    assert (found.what, found.target, found.partition, found.promised) == ("outside", "time", "a100", 0.2)
    assert found.since >= 1e6 + 60 * 200
    assert "of times on a100 lie outside their 80 % intervals" in found.text


def test_false_alarms_are_as_rare_as_was_asked_for() -> None:
    """Intervals that cover exactly 80 %: on average at least as many jobs pass as were asked for."""
    most = 5 * APART
    runs = [first_alarm(outside(np.random.default_rng(seed), 0.2, most), most) for seed in range(60)]
    assert np.mean(runs) > APART  # although runs were cut off at ``most``
    assert np.mean(np.array(runs) < 100) < 0.1  # nor do they come at once


def test_coverage_of_three_quarters_is_seldom_drift() -> None:
    alarmed = [bool(alarms(outside(np.random.default_rng(seed), 0.25, 300), 0.0, 5000)) for seed in range(40)]
    assert np.mean(alarmed) < 0.25


def test_an_array_is_one_observation() -> None:
    tasks = [promise(i, inside=False, key="array", ended=1e6 + i) for i in range(1000)]
    assert not alarms(tasks, 0.0, APART)
    days = [promise(i, inside=False, key="array", ended=1e6 + i * DAY_S) for i in range(30)]
    assert alarms(days, 0.0, APART)


def test_drift_on_one_partition_is_named() -> None:
    rng = np.random.default_rng(1)
    parts = [(name, share) for _ in range(100) for name, share in (("a100", 0.1), ("a6000", 0.7))]
    mixed = [promise(i, rng.random() > share, partition=name) for i, (name, share) in enumerate(parts)]
    assert {alarm.partition for alarm in alarms(mixed, 0.0, APART)} == {ALL, "a6000"}


def test_energy_has_a_test_of_its_own() -> None:
    wrong = [promise(i, energy_inside=False) for i in range(40)]
    assert [alarm.target for alarm in alarms(wrong, 0.0, APART)] == ["energy"]


@pytest.mark.parametrize(("usual", "share", "found"), [(0.05, 0.6, True), (0.05, 0.05, False), (0.5, 0.5, False)])
def test_unknown_work_is_found_where_it_is_more_than_usual(usual: float, share: float, found: bool) -> None:
    rng = np.random.default_rng(2)
    unknown = rng.random(150) < share
    seen = [promise(i, source=Source.PRIOR if u else Source.PROBE) for i, u in enumerate(unknown)]
    assert [alarm.what for alarm in alarms(seen, usual, APART)] == (["unknown"] if found else [])


def test_energies_of_another_kind_count_for_nothing() -> None:
    """A site whose GPUs are measured now: what whole nodes took before says nothing of that."""
    of_nodes = [promise(i, energy_inside=False) for i in range(40)]
    of_nodes = [replace(p, outcome=replace(p.outcome, energy_method="slurm")) for p in of_nodes]
    assert [alarm.target for alarm in alarms(of_nodes, 0.0, APART)] == ["energy"]
    mixed = [*of_nodes, promise(40, energy_inside=True)]
    assert not alarms(mixed, 0.0, APART)
    assert [row.jobs for row in table(mixed) if row.target == "energy"] == [1]


def test_what_was_preliminary_counts_as_nothing() -> None:
    hurried = [promise(i, source=Source.PRIOR) for i in range(100)]
    assert alarms(hurried, 0.0, APART)
    assert not alarms([Promise(p.key, None, p.estimate, p.outcome) for p in hurried], 0.0, APART)


def test_the_table() -> None:
    seen = [promise(i, inside=i % 4 > 0, energy_inside=True if i < 10 else None) for i in range(20)]
    seen += [promise(20 + i, source=Source.PRIOR, partition="a6000") for i in range(5)]
    rows = {(row.target, row.partition): row for row in table(seen)}
    assert list(rows) == [("time", ALL), ("time", "a100"), ("time", "a6000"), ("energy", ALL), ("energy", "a100")]
    row = rows["time", "a100"]
    assert (row.jobs, row.unknown, row.coverage, row.median_ape) == (20, 0, 0.75, 0)
    assert row.coverage_low is not None and row.coverage_high is not None
    assert row.coverage_low < 0.75 < row.coverage_high
    assert rows["time", ALL].unknown == 0.2 and rows["time", "a6000"].coverage is None
    assert (rows["energy", "a100"].jobs, rows["energy", "a100"].coverage) == (10, 1)
    assert table([]) == ()


def test_wilson() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Newcombe 1998, by the same formula
    assert wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1


@pytest.mark.parametrize(
    ("labels", "learned", "tried", "drifted", "now", "words"),
    [
        (19, None, None, False, False, "no model is in use, but it takes 20"),
        (20, None, None, False, True, "no model is in use"),
        (39, None, 20, False, False, "19 so far"),
        (40, None, 20, False, True, "no model is in use"),
        (150, 100, 100, False, False, "50 of 200 jobs"),
        (300, 100, 100, False, True, "200 jobs have finished since"),
        (119, 100, 100, True, False, "have drifted: it, but it takes 20 finished jobs since the last training: 19"),
        (120, 100, 100, True, True, "have drifted: it"),
        (350, 100, 300, False, False, "but it takes 200"),  # the last one was refused
        (350, 100, 300, True, True, "have drifted: it"),
        (90, 100, 100, False, False, "0 of 200 jobs"),  # a store that was put back
    ],
)
def test_when_to_train(
    labels: int, learned: int | None, tried: int | None, drifted: bool, now: bool, words: str
) -> None:
    found = due(TrainConfig(), labels, learned, tried, ["it"] if drifted else [])
    assert found.now is now and words in found.reason


def test_a_model_that_was_lost_is_replaced_at_once() -> None:
    assert due(TrainConfig(), 100, None, 100, [], lost=True).now
    assert not due(TrainConfig(), 100, None, 100, []).now


def test_many_alarms_are_not_all_put_into_words() -> None:
    reason = due(TrainConfig(), 300, 200, 200, ["one", "two", "three", "four"]).reason
    assert reason == "estimates have drifted: one; two; and 2 more tests say so"
