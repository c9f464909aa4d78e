"""``slurmcast train --when-due`` on a real store, from the first job to drift that is found and learned."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.config import Config, TrainConfig
from slurmcast.drift.metrics import metrics
from slurmcast.drift.trainings import FILE, Training, recorded, trainings
from slurmcast.drift.watch import last_look
from slurmcast.model import Estimate, Interval, Source
from slurmcast.probe import Example, Registry
from slurmcast.train import TrainError, train_from_store, train_when_due
from tests.unit.store_world import fill, jobs, site


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return replace(site(tmp_path), train=TrainConfig(new_labels=60, least_new=20, false_alarm_jobs=200))


def in_use(config: Config) -> str:
    return Registry(config.paths.models).current() or ""


def slower(example: Example) -> Example:
    """The same job after a driver's update."""
    return replace(example, time_s=example.time_s * 2.5)


def promised(config: Config, examples: list[Example]) -> list[Estimate]:
    """What the model in use expects of jobs."""
    model = Registry(config.paths.models).read(in_use(config))
    return [
        model.predict(e.vector, e.numbers, {e.partition: e.gpus}, key=f"new {i}")[0] for i, e in enumerate(examples)
    ]


def test_from_the_first_jobs_to_drift(config: Config) -> None:
    every = jobs(300)
    fill(config, every[:10])
    answer = train_when_due(config)
    assert not answer["due"] and "no model is in use, but it takes 20" in answer["because"]
    fill(config, every[10:80], first=10)
    first = train_when_due(config)
    assert first["promoted"] and first["model"] == in_use(config)
    again = train_when_due(config)
    assert not again["due"] and "no drift, and 0 of 60 jobs" in again["because"]

    fill(config, every[80:115], first=80, promised=promised(config, every[80:115]))
    good = train_when_due(config)
    assert not good["due"] and "35 of 60" in good["because"], "estimates that hold are no reason to train"

    late = [slower(example) for example in every[115:150]]
    fill(config, late, first=115, promised=promised(config, late))
    drifted = train_when_due(config)
    assert drifted["due"] and "have drifted" in drifted["because"] and drifted["model"] == in_use(config)
    assert in_use(config) != first["model"]
    seen = last_look(config.paths.models)
    assert seen is not None and not seen.alarms and seen.model == in_use(config)
    assert [t.result for t in trainings(config.paths.models)] == ["promoted", "promoted"]
