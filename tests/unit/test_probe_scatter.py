"""Programs whose runs scatter more or less than others': their own intervals, and what they do to others'."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.model import Interval
from slurmcast.probe import Example, Model, train
from slurmcast.probe.fair_share import shares
from slurmcast.probe.process import RESTLESS as RESTLESS_FROM
from slurmcast.probe.scatter import MOST, PRIOR
from slurmcast.probe.scatter import factors as factors_of
from tests.unit.probe_world import DIMENSIONS, NOISE, PARTITIONS, World, known_scripts

RESTLESS = 10 * NOISE


def of(size: float, count: int, seed: int = 0) -> np.ndarray:
    return size * np.random.default_rng(seed).normal(size=count)


def factors(
    residuals: np.ndarray, programs: Sequence[int], groups: Sequence[int]
) -> tuple[dict[int, float], np.ndarray]:
    return factors_of(residuals, programs, groups, np.ones(len(residuals)))


def test_a_program_has_the_factor_by_which_it_scatters() -> None:
    residuals = np.concatenate([of(1, 200, 1), of(1, 200, 2), of(4, 200, 3), of(0.3, 200, 4), of(1, 200, 5)])
    found, without = factors(residuals, [n // 200 for n in range(1000)], range(1000))
    assert [found[program] for program in range(5)] == pytest.approx([1, 1, 4, 0.3, 1], rel=0.15)
    assert without[450] == pytest.approx(found[2], rel=0.05)


def test_few_runs_say_little() -> None:
    residuals = np.concatenate([of(1, 200), [4.0]])
    found, without = factors(residuals, [n // 50 for n in range(201)], range(201))
    assert 1 < found[4] < 2.5
    assert without[200] == 1  # by no other run of its own


def test_a_run_that_went_astray_is_not_its_program_s_nature() -> None:
    residuals = np.concatenate([of(1, 100), [1e6]])
    found, _ = factors(residuals, [n % 5 for n in range(101)], range(101))
    assert max(found.values()) < math.sqrt(1 + MOST**2 / (PRIOR + 20)) + 0.5


@pytest.mark.parametrize("runs", [1, 4, 5, 20])
def test_runs_that_are_told_exactly_say_the_less_the_fewer_they_are(runs: int) -> None:
    residuals = np.concatenate([of(1, 100), np.zeros(runs)])
    found, _ = factors(residuals, [n // 20 for n in range(100)] + [5] * runs, range(100 + runs))
    assert found[5] == pytest.approx(math.sqrt(PRIOR / (PRIOR + runs)))


def test_a_run_owes_nothing_to_itself_nor_to_its_group() -> None:
    residuals, programs, groups = of(1, 50), [n // 10 for n in range(50)], [n // 2 for n in range(50)]
    residuals[:10] *= 3  # the most restless already: what is usual, the median, stays
    _, before = factors(residuals, programs, groups)
    residuals[4:6] += 3
    _, after = factors(residuals, programs, groups)
    assert after[4:6] == pytest.approx(before[4:6])
    assert (after[:4] > 1.05 * before[:4]).all()
    assert after[10:] == pytest.approx(before[10:])


def test_a_program_whose_runs_are_told_exactly_has_a_factor_too() -> None:
    found, without = factors(np.zeros(40), [n // 20 for n in range(40)], range(40))
    assert min(found.values()) > 0
    assert (without > 0).all()


def test_what_is_not_there_is_passed_over() -> None:
    residuals = np.array([np.nan, 1.0, -1.0, np.nan])
    found, without = factors(residuals, [1, 2, 2, 3], range(4))
    assert found.keys() == {2}
    assert without[[0, 3]].tolist() == [1, 1]
    assert factors(np.full(3, np.nan), [1, 2, 3], range(3)) == ({}, pytest.approx([1, 1, 1]))


@pytest.mark.parametrize(("programs", "runs"), [(30, 1), (1, 300), (30, 10)])
def test_programs_that_always_take_as_long_make_no_others_look_restless(programs: int, runs: int) -> None:
    honest, exact = of(1, 120), np.full(programs * runs, 1e-3)
    owners = [n % 5 for n in range(120)] + [9] * len(exact)
    weights = shares(range(len(owners)), owners, 1).weights
    labels = [n // 10 for n in range(120)] + [100 + n // runs for n in range(len(exact))]
    found, _ = factors_of(np.concatenate([honest, exact]), labels, range(len(labels)), weights)
    assert max(found[program] for program in range(12)) < RESTLESS_FROM


def restless_world(seed: int) -> tuple[World, set[bytes], list[Example]]:
    """A world of six scripts, two of which have times that wander."""
    world = World(seed, kinds=2)
    restless = {script.vector.tobytes() for script in known_scripts(world)[::3]}
    rng = np.random.default_rng(seed)
    return (
        world,
        restless,
        [
            replace(run, time_s=run.time_s * math.exp(rng.normal(0, RESTLESS)))
            if run.vector.tobytes() in restless
            else run
            for run in world.history(120, known_scripts(world))
        ],
    )


def told(
    model: Model, world: World, restless: set[bytes], count: int = 200
) -> dict[bool, list[tuple[float, Interval]]]:
    """True times and intervals of new runs, of calm (False) and restless (True) scripts."""
    found = defaultdict(list)
    scripts = known_scripts(world)
    for _ in range(count):
        script, numbers = scripts[world.rng.integers(len(scripts))], world.arguments()
        wanders = script.vector.tobytes() in restless
        for partition, gpu_type in PARTITIONS.items():
            (estimate,) = model.predict(script.vector, numbers, {partition: 1})
            seconds = script.seconds(gpu_type, **numbers) * math.exp(
                world.rng.normal(0, RESTLESS if wanders else NOISE)
            )
            if estimate.time_s:
                found[wanders].append((seconds, estimate.time_s))
    return found


def held(runs: list[tuple[float, Interval]]) -> float:
    return float(np.mean([time.p10 <= seconds <= time.p90 for seconds, time in runs]))


def test_intervals_hold_for_calm_and_for_restless_programs() -> None:
    coverage: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(3):
        world, restless, history = restless_world(seed)
        model = train(history, ProbeConfig(targets=("time",)), encoder="made up").model
        for wanders, runs in told(model, world, restless).items():
            coverage[wanders].append(held(runs))
    assert 0.72 < np.mean(coverage[False]) < 0.92
    assert 0.68 < np.mean(coverage[True]) < 0.9


def test_a_program_whose_times_nothing_explains_is_not_all_programs_noise() -> None:
    world = World(0)
    rng = np.random.default_rng(0)
    wild, epochs = rng.normal(size=DIMENSIONS).astype(np.float32), range(1, 36)
    history = world.history(120, known_scripts(world)) + [
        Example(f"wild {n}", wild, {"epochs": float(n)}, 1, "fast", "a100", math.exp(rng.normal(5, 4))) for n in epochs
    ]
    history = [history[i] for i in rng.permutation(len(history))]
    model = train(history, ProbeConfig(targets=("time",)), encoder="made up").model
    runs = told(model, world, set())[False]
    assert held(runs) > 0.75
    assert np.median([time.p90 / time.p10 for _, time in runs]) < 1.5
    assert np.median([abs(time.p50 / seconds - 1) for seconds, time in runs]) < 0.06
    (estimate,) = model.predict(wild, {"epochs": 40.0}, {"fast": 1})
    assert estimate.time_s and estimate.time_s.p90 / estimate.time_s.p10 > 100
