"""Estimates by a script's rewriting: from where it lies, no surer than for any script that was never seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slurmcast.model import Estimate, Source
from slurmcast.probe import Model
from tests.unit.probe_world import DIMENSIONS, PARTITIONS, Script, World, known_scripts, trained_world

NUMBERS = {"epochs": 20.0, "batch_size": 32.0}
GPUS = dict.fromkeys(PARTITIONS, 1)


def foreign(world: World) -> np.ndarray:
    """A script unlike all others: what it has in common with them turned round."""
    return -np.mean([script.vector for script in world.scripts], axis=0)


@pytest.fixture(scope="module")
def world_and_model() -> tuple[World, Model]:
    return trained_world(1)


@pytest.fixture(scope="module")
def script(world_and_model: tuple[World, Model]) -> Script:
    return known_scripts(world_and_model[0])[0]


def width(estimate: Estimate) -> float:
    assert estimate.time_s is not None
    return math.log(estimate.time_s.p90 / estimate.time_s.p10)


def known_everywhere(model: Model) -> Model:
    """With a border that nothing lies beyond: to it all vectors that aren't near are of the class far."""
    return replace(model, territory=replace(model.territory, limit=math.inf))


def test_the_middle_is_the_rewriting_s_the_width_that_of_the_unknown(
    world_and_model: tuple[World, Model], script: Script
) -> None:
    world, model = world_and_model
    vector = foreign(world)
    assert not model.knows(vector) and model.tested_far
    assert all(e.source is Source.UNKNOWN for e in model.predict(vector, NUMBERS, GPUS))
    known = model.predict(script.vector, NUMBERS, GPUS)
    aligned = model.predict_rewritten(vector, script.vector, NUMBERS, GPUS)
    far = known_everywhere(model).predict(vector, NUMBERS, GPUS)
    for near, made, unknown in zip(known, aligned, far, strict=True):
        assert made.source is Source.ALIGN and made.partition == near.partition
        assert near.time_s is not None and made.time_s is not None and made.energy_kwh is not None
        assert made.time_s.p50 == pytest.approx(near.time_s.p50)
        assert width(near) < width(unknown) <= width(made) * (1 + 1e-9)


def test_the_interval_reaches_what_would_be_told_without_the_rewriting(world_and_model: tuple[World, Model]) -> None:
    world, model = world_and_model
    vector, everywhere, away = foreign(world), known_everywhere(model), 0
    for script in known_scripts(world):
        aligned = model.predict_rewritten(vector, script.vector, NUMBERS, GPUS)
        for made, own in zip(aligned, everywhere.predict(vector, NUMBERS, GPUS), strict=True):
            assert made.time_s and own.time_s
            away += not own.time_s.p10 <= made.time_s.p50 <= own.time_s.p90
            assert made.time_s.p10 <= own.time_s.p50 <= made.time_s.p90
    assert away > 0


def test_a_rewriting_that_is_unknown_too_helps_nobody(world_and_model: tuple[World, Model]) -> None:
    world, model = world_and_model
    vector = foreign(world)
    assert all(e.source is Source.UNKNOWN for e in model.predict_rewritten(vector, vector, NUMBERS, GPUS))


def test_without_tested_far_intervals_nothing_is_claimed(world_and_model: tuple[World, Model], script: Script) -> None:
    world, model = world_and_model
    untested = replace(model, calibration={k: v for k, v in model.calibration.items() if not k.startswith("far")})
    assert not untested.tested_far
    made = untested.predict_rewritten(foreign(world), script.vector, NUMBERS, GPUS)
    assert all(e.source is Source.UNKNOWN and e.time_s is None for e in made)


def test_only_types_that_were_seen_and_gpus_of_one_s_own(world_and_model: tuple[World, Model], script: Script) -> None:
    world, model = world_and_model
    made = model.predict_rewritten(foreign(world), script.vector, NUMBERS, {"fast": 1, "other": 1}, shared=True)
    assert [e.source for e in made] == [Source.ALIGN, Source.UNKNOWN]
    assert made[0].time_s is not None and made[0].energy_kwh is None


def test_vectors_of_another_encoder_are_refused(world_and_model: tuple[World, Model], script: Script) -> None:
    _, model = world_and_model
    with pytest.raises(ValueError, match=f"takes \\({DIMENSIONS},\\)"):
        model.predict_rewritten(script.vector, script.vector[1:], NUMBERS, GPUS)
