"""What is told of programs that aren't known, after programs that were left out have shown how far that holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.probe import Example, train
from slurmcast.probe.model import read
from slurmcast.probe.recalibration import MIN_SLOPE, learn, learn_without

TYPES = np.array([0, 1] * 100)
ALIKE = np.ones(len(TYPES))


def told(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(5, 1, len(TYPES))


@pytest.mark.parametrize("slope", [0.3, 1.0, 1.5])
@pytest.mark.parametrize("offsets", [(0.0, 0.0), (-1.0, 0.5)])
def test_what_left_out_programs_came_to_is_found(slope: float, offsets: tuple[float, float]) -> None:
    measured = 5 + slope * (told() - 5) + np.array(offsets)[TYPES] + told(1) * 0.01
    found = learn(told(), measured, TYPES, ALIKE, 2)
    assert found.slope == pytest.approx(slope, abs=0.02)
    assert found.apply(told(), TYPES) == pytest.approx(measured, abs=0.1)


@pytest.mark.parametrize("sense", [0, -1])
def test_where_nothing_was_found_again_levels_fall_together_and_the_order_stays(sense: int) -> None:
    found = learn(told(), 5 + 0.3 * (told(1) - 5) + sense * told(), TYPES, ALIKE, 2)
    asked = np.array([1.0, 5.0, 9.0])
    become = found.apply(asked, np.zeros(3, np.int64))
    assert 0 < become[1] - become[0] <= 4 * max(MIN_SLOPE, 0.1)
    assert become[1] < become[2]


def test_few_programs_are_believed_little() -> None:
    few = learn(np.array([4.0, 6.0]), np.array([6.0, 4.0]), np.array([0, 0]), np.ones(2), 1)
    many = learn(np.tile([4.0, 6.0], 50), np.tile([6.0, 4.0], 50), np.zeros(100, np.int64), np.ones(100), 1)
    assert many.slope == MIN_SLOPE
    assert few.slope > 0.4


def test_jobs_that_are_all_alike_are_believed() -> None:
    same, types = np.full(9, 5.0), np.zeros(9, np.int64)
    found = learn(same, same, types, np.ones(9), 2)
    assert found.slope == pytest.approx(1)
    assert found.apply(np.array([3.0, 8.0]), np.array([0, 1])) == pytest.approx([3, 8])


def test_jobs_count_as_much_as_they_weigh() -> None:
    measured = told(1)
    once = learn(told(), measured, TYPES, ALIKE, 2)
    again = [*range(200), *[7] * 500]
    weights = np.array([1 / 501 if number == 7 else 1.0 for number in again])
    assert learn(told()[again], measured[again], TYPES[again], weights, 2).slope == pytest.approx(once.slope)


def test_a_left_out_program_has_no_say_in_what_is_told_of_it() -> None:
    clusters = [number // 4 for number in range(len(TYPES))]
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
