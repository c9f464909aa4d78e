"""Which partitions changed and when, and what trainings make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.drift.changes import Changes, apart, changes
from slurmcast.drift.figures import ALL, Alarm
from slurmcast.evaluation.cases import Case
from slurmcast.evaluation.estimators import by_model, trained
from slurmcast.evaluation.promotion import trial
from slurmcast.model import GpuRequest, Outcome, Reading
from slurmcast.probe import Example, Model
from slurmcast.probe.prior import Site
from slurmcast.store.records import Label, Origin
from tests.unit.probe_world import PARTITIONS
from tests.unit.store_world import jobs

SLOWER = 2.5
CONFIG = ProbeConfig(targets=("time", "energy"))


def alarm(partition: str, since: float, changed: float, what: str = "outside", target: str = "time") -> Alarm:
    return Alarm(what, target, partition, since, 0.5, 0.2, changed)


@pytest.mark.parametrize(
    ("alarmed", "found"),
    [
        ([], {}),
        ([alarm("a", 9, 5)], {"a": 5}),
        ([alarm("a", 9, 5), alarm("a", 8, 6, target="energy")], {"a": 6}),
        ([alarm(ALL, 7, 4), alarm("b", 9, 5)], {"b": 5}),
        ([alarm(ALL, 9, 5), alarm(ALL, 7, 4, target="energy")], {"a": 4, "b": 4}),
        ([alarm(ALL, 9, 5, what="unknown")], {}),
    ],
)
def test_which_partitions_changed(alarmed: list[Alarm], found: dict[str, float]) -> None:
    assert changes(alarmed, ["a", "b"]) == found


def case(number: int, example: Example) -> Case:
    """The ``number``-th job, which ends ``number`` minutes after the first."""
    outcome = Outcome(number, 0, example.partition, example.gpu_type, 1, "COMPLETED", 0, 60 * number, example.time_s)
    reading = Reading(example.key, "", dict(example.numbers), GpuRequest(per_job=1), 1)
    label = Label(
        example.key, example.key, reading, replace(outcome, energy_kwh=example.energy_kwh), Origin(1, "", "", "")
    )
    return Case(label, example.vector)


def test_only_runs_from_before_on_what_changed_stand_apart() -> None:
    labels = [case(i, example).label for i, example in enumerate(jobs(40))]
    found = apart(labels, {"slow": 60 * 20.0})
    former = [i for i, label in enumerate(found) if label != labels[i]]
    assert former == [i for i, label in enumerate(labels) if i <= 20 and label.outcome.partition == "slow"]
    names = {(found[i].outcome.partition, found[i].outcome.gpu_type) for i in former}
    assert names == {("a6000 until 1970-01-01 00:20",) * 2}


def train(known: Sequence[Case], kind: str, heeded: Changes) -> Model:
    del kind  # there is one here
    model = trained(known, CONFIG, "test", PARTITIONS, heeded)
    return replace(model, figures={**model.figures, "learned_until": max(one.ended for one in known)})


@pytest.fixture(scope="module")
def world() -> tuple[list[Case], list[Case]]:
    """110 jobs, the last 40 of them since all takes longer on slow GPUs; 40 more like those."""
    every = jobs(150)
    late = [replace(e, time_s=e.time_s * SLOWER, energy_kwh=(e.energy_kwh or 0) * SLOWER) for e in every]
    found = [case(i, late[i] if i >= 70 and e.partition == "slow" else e) for i, e in enumerate(every)]
    return found[:110], found[110:]


def errors(model: Model, cases: list[Case]) -> dict[str, float]:
    """Median absolute percentage error of time by partition."""
    found: dict[str, list[float]] = {name: [] for name in PARTITIONS}
    for one in cases:
        if (told := by_model(model)(one).time_s) is not None:
            found[one.label.outcome.partition].append(abs(told.p50 / one.label.outcome.elapsed_s - 1))
    return {name: float(np.median(values)) for name, values in found.items()}


def test_a_change_that_is_known_is_learned_at_once(world: tuple[list[Case], list[Case]]) -> None:
    known, later = world
    plain, heeding = (errors(train(known, "", heeded), later) for heeded in ({}, {"slow": 60 * 69.0}))
    assert plain["slow"] > 0.2 and heeding["slow"] < 0.1
    assert heeding["fast"] < plain["fast"] + 0.02, "old runs tell as much as before of GPUs that are as they were"


@pytest.mark.parametrize(("changed", "heeded"), [(True, True), (False, False)])
def test_the_trial_decides_whether_a_change_is_heeded(
    world: tuple[list[Case], list[Case]], changed: bool, heeded: bool
) -> None:
    """Where there was an alarm but no change, the candidate that forgets nothing is the better one."""
    known = world[0] if changed else [case(i, example) for i, example in enumerate(jobs(110))]
    in_use = train(known[:65], "size+ratio", {})
    site = Site({of_type: of_type for of_type in PARTITIONS.values()}, {})
    said = {"slow": 60 * 69.0}
    found = trial(known, "size+ratio", train, in_use, site, PARTITIONS, said, said["slow"])
    assert (found.changes == said) is heeded
    assert found.tested == 20, "every second job since"
    assert found.promote or not changed
    assert "20 jobs since the change, every second one" in found.reason
    assert found.reason.endswith("), knowing that slow changed") is heeded
