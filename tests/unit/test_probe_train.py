"""The default probe on a world whose truth is known: errors, ratios, intervals, and what it doesn't claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.model import Estimate, Source
from slurmcast.probe import Example, Model, TrainingError, train
from slurmcast.probe.features import AMOUNTS
from slurmcast.probe.model import POWER_MARGIN
from tests.unit.probe_world import (
    DIMENSIONS,
    NOISE,
    PARTITIONS,
    POWER_W,
    Script,
    World,
    known_scripts,
    new_scripts,
    trained_world,
)

BOTH = {"fast": 1, "slow": 1}


def asked(
    world: World, model: Model, scripts: list[Script], count: int
) -> list[tuple[Script, dict[str, float], tuple[Estimate, ...]]]:
    found = []
    for _ in range(count):
        script, numbers = scripts[world.rng.integers(len(scripts))], world.arguments()
        found.append((script, numbers, model.predict(script.vector, numbers, BOTH)))
    return found


def truth(script: Script, estimate: Estimate, numbers: dict[str, float], noise: float = 0.0) -> float:
    return script.seconds(PARTITIONS[estimate.partition], **numbers) * math.exp(noise)


def test_known_scripts_with_other_arguments_come_out_right() -> None:
    world, model = trained_world(0)
    errors = [
        abs(e.time_s.p50 / truth(script, e, numbers) - 1)
        for script, numbers, estimates in asked(world, model, known_scripts(world), 100)
        for e in estimates
        if e.time_s
    ]
    assert len(errors) == 200
    assert np.median(errors) < 0.07


def test_a_script_that_ran_on_one_type_only_has_its_kinds_ratio_on_the_other() -> None:
    world, model = trained_world(0)
    errors, average = [], []
    ratios = [script.log_ratio for script in world.scripts]
    for script, _, (fast, slow) in asked(world, model, known_scripts(world), 100):
        assert fast.time_s and slow.time_s
        errors.append(abs(math.log(slow.time_s.p50 / fast.time_s.p50) - script.log_ratio))
        average.append(abs(np.mean(ratios) - script.log_ratio))
    assert np.mean(errors) < 0.4 * np.mean(average)


def test_the_better_partition_is_named() -> None:
    world, model = trained_world(0)
    right = [
        (slow.time_s.p50 > fast.time_s.p50) == (script.log_ratio > 0)
        for script, _, (fast, slow) in asked(world, model, known_scripts(world), 100)
        if fast.time_s and slow.time_s and abs(script.log_ratio) > 0.1
    ]
    assert np.mean(right) >= 0.93


@pytest.mark.parametrize(
    ("scripts", "low", "high"), [(known_scripts, 0.75, 0.87), (new_scripts, 0.72, 0.97)], ids=["known", "new"]
)
def test_intervals_hold_four_in_five(scripts: Callable[[World], list[Script]], low: float, high: float) -> None:
    inside = []
    for seed in range(6):
        world, model = trained_world(seed)
        for script, numbers, estimates in asked(world, model, scripts(world), 40):
            for e in estimates:
                if e.time_s:
                    inside.append(e.time_s.p10 <= truth(script, e, numbers, world.rng.normal(0, NOISE)) <= e.time_s.p90)
    assert len(inside) > 300
    assert low < np.mean(inside) < high


def test_new_scripts_have_wider_intervals_than_known_ones() -> None:
    world, model = trained_world(0)
    widths = [
        np.median([e.time_s.p90 / e.time_s.p10 for *_, es in asked(world, model, scripts, 50) for e in es if e.time_s])
        for scripts in (known_scripts(world), new_scripts(world))
    ]
    assert widths[1] > 3 * widths[0]


def test_a_script_unlike_any_other_is_unknown() -> None:
    world, model = trained_world(0)
    estimates = model.predict(-world.scripts[0].vector, {"epochs": 10}, BOTH)
    assert [(e.source, e.time_s, e.energy_kwh) for e in estimates] == [(Source.UNKNOWN, None, None)] * 2


def test_a_number_that_was_never_varied_widens_the_interval_when_it_is() -> None:
    world = World(0)
    examples = [
        world.run(f"job {n}", world.scripts[n % 32], {"epochs": 20.0, "batch_size": 2.0 ** (4 + n % 3)}, "fast")
        for n in range(96)
    ]
    model = train(examples, ProbeConfig(), encoder="test").model
    exponents = []
    for script in world.scripts[:32]:
        (usual,) = model.predict(script.vector, {"epochs": 20.0, "batch_size": 32.0}, {"fast": 1})
        (unusual,) = model.predict(script.vector, {"epochs": 2000.0, "batch_size": 32.0}, {"fast": 1})
        assert usual.time_s and unusual.time_s
        exponents.append(np.log(unusual.time_s.p50 / usual.time_s.p50) / np.log(100))
        assert unusual.time_s.p90 / unusual.time_s.p10 > 3 * usual.time_s.p90 / usual.time_s.p10
    # Proportional, until the examples say otherwise; what is a work's own (of the usual ones) averages out.
    assert np.mean(exponents) == pytest.approx(1, abs=0.01)


def test_energy_is_time_times_power_of_all_gpus() -> None:
    world, model = trained_world(0)
    script, numbers = known_scripts(world)[0], {"epochs": 20.0, "batch_size": 32.0}
    (e,) = model.predict(script.vector, numbers, {"fast": 1})
    assert e.source is Source.PROBE
    assert e.time_s and e.energy_kwh
    assert e.energy_kwh.p50 == pytest.approx(e.time_s.p50 * POWER_W["a100"] / 3.6e6, rel=0.02)
    assert e.energy_kwh.p10 < e.energy_kwh.p50 < e.energy_kwh.p90


def test_shared_gpus_have_a_time_and_no_energy() -> None:
    world, model = trained_world(0)
    (e,) = model.predict(known_scripts(world)[0].vector, {"epochs": 20}, {"fast": 1}, shared=True)
    assert e.time_s
    assert e.energy_kwh is None


def test_partitions_of_unknown_type_are_unknown_and_order_is_kept() -> None:
    world, model = trained_world(0)
    estimates = model.predict(known_scripts(world)[0].vector, {"epochs": 20}, {"slow": 1, "other": 2, "fast": 1})
    assert [(e.partition, e.gpus, e.source.value) for e in estimates] == [
        ("slow", 1, "probe"),
        ("other", 2, "unknown"),
        ("fast", 1, "probe"),
    ]


def test_a_new_partition_of_a_known_type_is_known() -> None:
    world = World(0)
    partitions = {"new": "a100"}
    model = train(world.history(60, world.scripts), ProbeConfig(), encoder="test", partitions=partitions).model
    fast, new = model.predict(world.scripts[0].vector, {"epochs": 20}, {"fast": 1, "new": 1})
    assert (new.time_s, new.source) == (fast.time_s, Source.PROBE)


def test_jobs_whose_energy_was_not_measured_have_none() -> None:
    world = World(0)
    examples = [replace(example, energy_kwh=None) for example in world.history(60, world.scripts)]
    (e,) = train(examples, ProbeConfig(), encoder="test").model.predict(examples[0].vector, {"epochs": 20}, {"fast": 1})
    assert e.time_s
    assert e.energy_kwh is None


def test_the_same_seed_gives_the_same_model() -> None:
    world = World(0)
    examples = world.history(60, world.scripts)
    one, two = (train(examples, ProbeConfig(), encoder="test").model for _ in range(2))
    numbers = world.arguments()
    assert one.predict(examples[0].vector, numbers, BOTH) == two.predict(examples[0].vector, numbers, BOTH)


def test_figures_tell_what_was_measured() -> None:
    _, model = trained_world(0, jobs=300)
    figures = model.figures
    assert figures["keys"] == 300
    for gpu_type in ("a100", "a6000"):
        for target in ("time", "energy"):
            found = figures["types"][gpu_type][target]
            assert found["median_ape"] < 0.1 < found["mean_ape"]
            assert found["median_ape"] <= found["p90_ape"]
            assert 0.7 < found["coverage80"] < 0.92
            assert found["width"] > 1
    known, new = figures["types"]["a100"]["time"], figures["new_scripts"]["time"]
    assert known["median_ape"] < new["median_ape"] < new["mean_ape"]
    choice = figures["better"]["energy"]["a100/a6000"]
    assert choice["keys"] > 30
    assert choice["right"] >= max(0.8, choice["always"])


@pytest.mark.parametrize(("asked", "scripts"), [((1e-300, 1e-300, 1e18), 1), ((1e18,) * 9, 9)])
def test_absurd_numbers_of_one_user_keep_nobody_from_training(
    asked: tuple[float, ...], scripts: int, tmp_path: Path
) -> None:
    world = World(0)
    known = [replace(e, partition="fast", gpu_type="a100") for e in world.history(60, known_scripts(world))]
    vectors = world.rng.normal(size=(scripts, DIMENSIONS)).astype(np.float32)
    odd = [
        Example(f"odd {n}", vectors[n % scripts], numbers, 1, "slow", "a6000", 5.0)
        for n, value in enumerate(asked)
        for numbers in [dict.fromkeys(AMOUNTS, value) | {f"default {name}": 1e-300 for name in AMOUNTS}]
    ]
    model = train([*known, *odd], ProbeConfig(), encoder="test").model
    model.write(tmp_path)
    assert model.figures["types"]["a100"]["time"]["median_ape"] < 0.3


@pytest.mark.parametrize("scripts", [known_scripts, new_scripts], ids=["known", "new"])
def test_intervals_of_first_models_hold(scripts: Callable[[World], list[Script]]) -> None:
    # Thirty jobs of 24 scripts: many have run once, so few tell how far a known script is known.
    inside = []
    for seed in range(16):
        world = World(seed)
        examples = world.history(30, known_scripts(world))
        model = train(examples, ProbeConfig(targets=("time",)), encoder="test").model
        for script, numbers, estimates in asked(world, model, scripts(world), 20):
            for e in estimates:
                if e.time_s:
                    inside.append(e.time_s.p10 <= truth(script, e, numbers, world.rng.normal(0, NOISE)) <= e.time_s.p90)
    assert len(inside) > 300
    assert 0.77 < np.mean(inside) < 0.9


def test_power_stays_within_what_was_measured_whatever_a_script_says() -> None:
    world = World(0)
    examples = [
        replace(e, energy_kwh=(e.energy_kwh or 0) * (e.numbers["batch_size"] / 32) ** 0.3)
        for e in world.history(80, known_scripts(world))
    ]
    model = train(examples, ProbeConfig(), encoder="test").model

    def watts(script: Script, batch_size: float, partition: str) -> tuple[float, float, float]:
        (e,) = model.predict(script.vector, {"epochs": 20.0, "batch_size": batch_size}, {partition: 2})
        assert e.time_s and e.energy_kwh, e
        return tuple(getattr(e.energy_kwh, q) / 2 * 3.6e6 / getattr(e.time_s, q) for q in ("p10", "p50", "p90"))

    known = known_scripts(world)[0]
    new = next(script for script in new_scripts(world) if model.knows(script.vector))
    for partition, gpu_type in PARTITIONS.items():
        least, most = (POWER_W[gpu_type] * factor**0.3 for factor in (0.5, 4))
        assert watts(known, 128, partition)[1] == pytest.approx(most, rel=0.1)
        assert watts(known, 1e6, partition)[1] == pytest.approx(most * math.exp(POWER_MARGIN), rel=0.01)
        for batch_size in (1, 32, 1e6):
            for told in (*watts(known, batch_size, partition), *watts(new, batch_size, partition)):
                assert least * math.exp(-1.01 * POWER_MARGIN) < told < most * math.exp(1.01 * POWER_MARGIN)


def test_works_that_ran_again_tell_how_far_runs_differ_on_one_type() -> None:
    world = World(0)
    works = [(f"job {n}", world.scripts[n % 3], world.arguments()) for n in range(30)]
    once = [world.run(*work, "fast") for work in works]
    (key, script, numbers), again = works[0], [world.run(*work, "fast") for work in works[:12]]

    def width(examples: list[Example], key: str) -> float:
        model = train(examples, ProbeConfig(targets=("time",)), encoder="test").model
        (e,) = model.predict(script.vector, numbers, {"fast": 1}, key=key)
        assert e.source is Source.PROBE and e.time_s
        return e.time_s.p90 / e.time_s.p10

    assert width(once, key) == pytest.approx(width(once, "a new job"), rel=0.3)  # no better than one that never ran
    assert math.exp(NOISE) < width([*once, *again], key) < math.exp(6 * NOISE)


def test_works_that_ran_once_each_are_told_on_both_types() -> None:
    inside = []
    for seed in range(6):
        world = World(seed)
        works = [(f"job {n}", world.scripts[n % 3], world.arguments()) for n in range(60)]
        examples = [world.run(*work, ("fast", "slow")[n % 2]) for n, work in enumerate(works)]
        model = train(examples, ProbeConfig(targets=("time",)), encoder="test").model
        assert "seen/time" not in model.calibration
        for key, script, numbers in works:
            for e in model.predict(script.vector, numbers, {"fast": 1, "slow": 1}, key=key):
                assert e.time_s
                noise = world.rng.normal(0, NOISE)
                inside.append(e.time_s.p10 <= truth(script, e, numbers, noise) <= e.time_s.p90)
    assert 0.7 < np.mean(inside) < 0.9


def test_scripts_that_ran_once_each_tell_of_new_scripts_only() -> None:
    world = World(0)
    once = [world.run(f"job {n}", script, world.arguments(), "fast") for n, script in enumerate(known_scripts(world))]
    model = train(once, ProbeConfig(), encoder="test").model
    assert model.calibration.keys() == {"far/time", "far/energy"}
    (again,) = model.predict(once[0].vector, world.arguments(), {"fast": 1})
    assert again.source is Source.UNKNOWN  # how far one run tells of the script's next was never seen
    told = [model.predict(script.vector, world.arguments(), {"fast": 1})[0].time_s for script in new_scripts(world)]
    assert min(interval.p90 / interval.p10 for interval in told if interval) > 2


@pytest.mark.parametrize("jobs", [0, 1, 11])
def test_too_few_jobs_are_refused_with_what_to_do(jobs: int) -> None:
    world = World(0)
    with pytest.raises(TrainingError, match=f"{jobs} different jobs have finished, a probe needs 12; run more jobs"):
        train(world.history(jobs, world.scripts, both=1.0), ProbeConfig(), encoder="test")


def test_a_dozen_jobs_give_wide_intervals() -> None:
    world = World(0)
    model = train(world.history(12, world.scripts[:2], both=1.0), ProbeConfig(), encoder="test").model
    (e,) = model.predict(world.scripts[0].vector, {"epochs": 20, "batch_size": 32}, {"fast": 1})
    assert e.time_s
    assert e.time_s.p90 / e.time_s.p10 > 1 + 2 * NOISE


def test_a_type_with_hardly_any_job_is_left_out() -> None:
    world = World(0)
    examples = world.history(40, world.scripts)
    rare = [Example(f"rare {n}", examples[0].vector, {"epochs": 10}, 1, "rare", "h100", 100.0) for n in range(2)]
    model = train([*examples, *rare], ProbeConfig(), encoder="test").model
    (e,) = model.predict(examples[0].vector, {"epochs": 10}, {"rare": 1})
    assert e.source is Source.UNKNOWN


def test_a_vector_of_another_length_is_refused() -> None:
    _, model = trained_world(0)
    with pytest.raises(ValueError, match=r"shape \(5,\), the model takes \(32,\)"):
        model.predict(np.ones(5, np.float32), {}, BOTH)


def test_memory_is_one_target_more() -> None:
    world = World(0)
    examples = [
        replace(e, gpu_memory_gb=2.0 + 0.1 * e.numbers["batch_size"])
        for e in world.history(100, known_scripts(world), both=0.3)
    ]
    script, numbers = known_scripts(world)[0], {"epochs": 20.0, "batch_size": 64.0}
    model = train(examples, ProbeConfig(), encoder="test").model
    for e in model.predict(script.vector, numbers, BOTH):
        assert e.gpu_memory_gb and e.gpu_memory_gb.p50 == pytest.approx(8.4, rel=0.1)
        assert e.gpu_memory_gb.p10 < e.gpu_memory_gb.p50 < e.gpu_memory_gb.p90
    (shared,) = model.predict(script.vector, numbers, {"fast": 1}, shared=True)
    assert shared.time_s and shared.gpu_memory_gb is None
    less = train(examples, ProbeConfig(targets=("time",)), encoder="test").model
    (only,) = less.predict(script.vector, numbers, {"fast": 1})
    assert only.time_s and only.energy_kwh is None and only.gpu_memory_gb is None
