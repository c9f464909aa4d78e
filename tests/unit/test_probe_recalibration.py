"""What is told of programs that aren't known, after programs that were left out have shown how far that holds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.probe import Example, train
from slurmcast.probe.model import read
from slurmcast.probe.recalibration import MIN_SLOPE, learn, learn_without

TYPES = np.array([0, 1] * 100)
ALIKE = np.ones(len(TYPES))
PROGRAMS = np.arange(len(TYPES)) // 2
"""Each ran on both types."""


def told(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(5, 1, len(TYPES))


@pytest.mark.parametrize("slope", [0.3, 1.0, 1.5])
@pytest.mark.parametrize("offsets", [(0.0, 0.0), (-1.0, 0.5)])
def test_what_left_out_programs_came_to_is_found(slope: float, offsets: tuple[float, float]) -> None:
    measured = 5 + slope * (told() - 5) + np.array(offsets)[TYPES] + told(1) * 0.01
    found = learn(told(), measured, TYPES, ALIKE, 2, PROGRAMS)
    assert found.slope == pytest.approx(slope, abs=0.02)
    assert found.apply(told(), TYPES) == pytest.approx(measured, abs=0.1)


@pytest.mark.parametrize("sense", [0, -1])
def test_where_nothing_was_found_again_levels_fall_together_and_the_order_stays(sense: int) -> None:
    found = learn(told(), 5 + 0.3 * (told(1) - 5) + sense * told(), TYPES, ALIKE, 2, PROGRAMS)
    asked = np.array([1.0, 5.0, 9.0])
    become = found.apply(asked, np.zeros(3, np.int64))
    assert 0 < become[1] - become[0] <= 4 * max(MIN_SLOPE, 0.1)
    assert become[1] < become[2]


def test_long_programs_on_one_type_and_short_ones_on_another_say_nothing_of_their_ratio() -> None:
    long = told(1) + np.array([2.0, -2.0])[TYPES]
    alone = learn(told(), long, TYPES, ALIKE, 2, np.arange(len(TYPES)))
    assert alone.offsets[0] == pytest.approx(alone.offsets[1])
    on_both, apart = np.arange(len(TYPES)) < 60, np.where(np.arange(len(TYPES)) < 60, PROGRAMS, np.arange(len(TYPES)))
    found = learn(told(), np.where(on_both, told() + np.array([0.5, -0.5])[TYPES], long), TYPES, ALIKE, 2, apart)
    asked = found.apply(np.array([5.0, 5.0]), np.array([0, 1]))
    assert asked[0] - asked[1] == pytest.approx(1, abs=0.5)


def test_where_the_order_stays_though_it_was_not_found_the_ratio_is_still_what_was_measured() -> None:
    against = 5 - 2 * (told() - 5) + np.array([0.5, -0.5])[TYPES]
    found = learn(told() + 2.0 * TYPES, against, TYPES, ALIKE, 2, PROGRAMS)
    become = found.apply(told() + 2.0 * TYPES, TYPES)
    assert found.slope == MIN_SLOPE
    assert np.mean(become[TYPES == 0]) - np.mean(become[TYPES == 1]) == pytest.approx(
        np.mean(against[TYPES == 0]) - np.mean(against[TYPES == 1]), abs=0.1
    )


def test_few_programs_are_believed_little() -> None:
    few = learn(np.array([4.0, 6.0]), np.array([6.0, 4.0]), np.array([0, 0]), np.ones(2), 1, np.arange(2))
    types, clusters = np.zeros(100, np.int64), np.arange(100)
    many = learn(np.tile([4.0, 6.0], 50), np.tile([6.0, 4.0], 50), types, np.ones(100), 1, clusters)
    assert many.slope == MIN_SLOPE
    assert few.slope > 0.4


def test_jobs_that_are_all_alike_are_believed() -> None:
    same, types = np.full(9, 5.0), np.zeros(9, np.int64)
    found = learn(same, same, types, np.ones(9), 2, np.arange(9))
    assert found.slope == pytest.approx(1)
    assert found.apply(np.array([3.0, 8.0]), np.array([0, 1])) == pytest.approx([3, 8])


def test_jobs_count_as_much_as_they_weigh() -> None:
    measured = told(1)
    once = learn(told(), measured, TYPES, ALIKE, 2, PROGRAMS)
    again = [*range(200), *[7] * 500]
    weights = np.array([1 / 501 if number == 7 else 1.0 for number in again])
    found = learn(told()[again], measured[again], TYPES[again], weights, 2, PROGRAMS[again])
    assert (found.slope, *found.offsets) == pytest.approx((once.slope, *once.offsets))


def test_a_left_out_program_has_no_say_in_what_is_told_of_it() -> None:
    clusters = np.arange(len(TYPES)) // 4
    before, after = told(1), told(1)
    after[:4] += 100
    first, second = (learn_without(told(), measured, TYPES, ALIKE / 4, 2, clusters) for measured in (before, after))
    assert first[:4] == pytest.approx(second[:4])
    assert np.median(abs(first[4:] - second[4:])) > 0.1


def evening(script: int, owner: int | None = None, seconds: float = 1000) -> list[Example]:
    """A program whose users run it for as many epochs as take an evening, whatever its sources would do."""
    rng = np.random.default_rng(script)
    vector, epochs = rng.normal(size=32).astype(np.float32), float(np.exp(rng.uniform(2, 7)))
    return [
        Example(
            f"{script} {factor}",
            vector,
            {"epochs": epochs * factor, "default epochs": 10.0},
            1,
            gpu_type,
            gpu_type,
            seconds * factor * speed * math.exp(rng.normal(0, 0.1)),
            owner=owner,
        )
        for factor in (0.5, 1, 2)
        for gpu_type, speed in (("a100", 1), ("a6000", 1.5))
    ]


def test_where_every_program_takes_an_evening_so_does_a_new_one(tmp_path: Path) -> None:
    known = [run for script in range(16) for run in evening(script)]
    model = train(known, ProbeConfig(targets=("time",)), encoder="made up").model
    (tmp_path / "model").mkdir()
    model.write(tmp_path / "model")
    asked = [run for script in range(100, 120) for run in evening(script)]
    missed = []
    for trained in (model, read(tmp_path / "model")):
        told = [trained.predict(run.vector, run.numbers, {run.gpu_type: 1}, key=run.key)[0].time_s for run in asked]
        missed.append([abs(math.log(time.p50 / run.time_s)) for time, run in zip(told, asked, strict=True) if time])
    assert missed[0] == pytest.approx(missed[1])
    assert len(missed[0]) > len(asked) / 4
    assert np.median(missed[0]) < 0.7


def test_who_runs_long_programs_on_fast_gpus_does_not_make_these_slow_for_new_ones() -> None:
    speeds = {"a100": 1, "a6000": 1.5}
    known = [run for script in range(10) for run in evening(script)]
    known += [
        replace(run, time_s=run.time_s * longer)
        for script in range(10, 40)
        for gpu_type, longer in [(("a100", 8), ("a6000", 1 / 8))[script % 2]]
        for run in evening(script)
        if run.gpu_type == gpu_type
    ]
    model = train(known, ProbeConfig(targets=("time",)), encoder="made up").model
    ratios = [
        slow.time_s.p50 / fast.time_s.p50
        for script in range(100, 120)
        for run in evening(script)[:1]
        for fast, slow in [model.predict(run.vector, run.numbers, dict.fromkeys(speeds, 1), key=run.key)]
        if fast.time_s and slow.time_s
    ]
    assert len(ratios) > 5
    assert np.median(ratios) > 0.75


def test_one_user_s_many_programs_do_not_tell_how_long_everybody_s_take() -> None:
    honest = [run for script in range(20) for run in evening(script, owner=script % 5)]
    many = [run for script in range(20, 60) for run in evening(script, owner=9, seconds=1)]
    model = train(honest + many, ProbeConfig(targets=("time",)), encoder="made up").model
    told = [
        (run.time_s, estimate.time_s)
        for script in range(100, 120)
        for run in evening(script)
        for estimate in model.predict(run.vector, run.numbers, {run.gpu_type: 1}, key=run.key)
        if estimate.time_s
    ]
    assert np.median([time.p50 / seconds for seconds, time in told]) > 0.1
    assert np.mean([seconds <= time.p90 for seconds, time in told]) > 0.7
