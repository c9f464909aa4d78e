"""``slurmcast train --when-due`` on a real store, from the first job to drift that is found and learned."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.config import Config, TrainConfig
from slurmcast.drift.due import Due
from slurmcast.drift.metrics import metrics
from slurmcast.drift.trainings import FILE, Training, recorded, trainings
from slurmcast.drift.watch import Look, keep, last_look
from slurmcast.encoder.cache import VectorCache
from slurmcast.model import Estimate
from slurmcast.probe import Example, Model, Registry
from slurmcast.store.store import Store
from slurmcast.train import TrainError, said, train_from_store, train_when_due
from tests.unit.store_world import BEGAN, fill, jobs, settings, site


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
    assert set(drifted["figures"]["changes"]) == {"fast", "slow"}, "what changed is kept with the model"
    seen = last_look(config.paths.models)
    assert seen is not None and not seen.alarms and seen.model == in_use(config)
    assert [t.result for t in trainings(config.paths.models)] == ["promoted", "promoted"]


def test_in_a_store_begun_anew_every_job_is_new(config: Config) -> None:
    fill(config, jobs(80))
    assert train_when_due(config)["promoted"]
    for file in config.paths.state_dir.glob("store.db*"):
        file.unlink()
    now, every = int(time.time() - BEGAN) // 60 + 1, jobs(90, seed=1)
    fill(config, every[:30], first=now)
    assert "30 of 60 jobs" in train_when_due(config)["because"]
    fill(config, every[30:], first=now + 30)
    assert "90 jobs have finished since the model in use was trained" in train_when_due(config)["because"]


def test_a_model_of_another_release_is_replaced_at_once(config: Config) -> None:
    fill(config, jobs(80))
    first = train_when_due(config)["model"]
    settings = config.paths.models / first / "model.json"
    settings.write_text('{"format": 0}')
    again = train_when_due(config)
    assert "can't be used any more" in again["because"] and again["promoted"] and again["model"] == in_use(config)


def test_a_refused_training_is_not_tried_again_with_the_same_jobs(config: Config) -> None:
    every = jobs(120)
    fill(config, every[:80])
    changed = [replace(example, time_s=1800.0, energy_kwh=None) for example in every[80:]]
    fill(config, changed, first=80, first_uid=100_000)  # new users, for whom known scripts take half an hour
    refused = train_when_due(config)
    assert refused["due"] and not refused["promoted"] and "worse than no model" in refused["reason"]
    again = train_when_due(config)
    assert not again["due"] and "it takes 20 finished jobs since the last training: 0 so far" in again["because"]
    assert [(t.result, t.labels) for t in trainings(config.paths.models)] == [("refused", 120)]


def killed(config: Config) -> None:
    """Train, and be killed when half of the new model is written."""

    def half(model: Model, folder: Path) -> None:
        (folder / "model.json").write_text("{")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "write", half)
        train_from_store(config, force=True)


def test_a_training_that_is_killed_leaves_the_model_in_use(config: Config) -> None:
    every = jobs(120)
    fill(config, every[:60])
    first = train_from_store(config, force=True)["model"]
    fill(config, every[60:], first=60)
    process = multiprocessing.get_context("fork").Process(target=killed, args=(config,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    registry = Registry(config.paths.models)
    assert (registry.current(), registry.versions()) == (first, [first])
    assert trainings(config.paths.models)[-1].result == "unfinished"
    assert "0 so far" in train_when_due(config)["because"], "what killed it would kill it again"
    fill(config, jobs(60, seed=5), first=120)
    assert train_when_due(config)["due"]
    assert not list(config.paths.models.glob(".draft-*")), "what it left is gone"


def test_a_full_disk_leaves_the_model_in_use(config: Config) -> None:
    fill(config, jobs(60))
    first = train_from_store(config, force=True)["model"]
    fill(config, jobs(60, seed=5), first=60)
    most = (config.paths.models / first / "model.safetensors").stat().st_size - 1

    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    # As beside the daemon, which has both databases open: their shared memory is there and needn't be written.
    with closing(Store(config.paths.store, "test")), closing(VectorCache(config.paths.state_dir / "embeddings.db")):
        done = subprocess.run(command(config, "train"), preexec_fn=fill_up, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr.count("\n") == 1, done.stderr
    registry = Registry(config.paths.models)
    assert (registry.current(), registry.versions()) == (first, [first])
    assert "failed: " in trainings(config.paths.models)[-1].reason


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "/models/x"), "/models/x: Read-only file system"),
        (
            PermissionError(errno.EACCES, "Permission denied", "x"),
            "x: Permission denied; run as the user of slurmcastd "
            "(slurmcast doctor, as root, tells whose files are in its way)",
        ),
    ],
)
def test_what_a_disk_complains_of_is_said(fault: OSError, told: str) -> None:
    def fails() -> None:
        raise fault

    with pytest.raises(TrainError) as failed:
        said(fails)()
    assert str(failed.value) == told


def test_a_look_that_cannot_be_left_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "watch.json").mkdir()
    with pytest.raises(OSError):
        keep(tmp_path, Look(1.0, "", 0, 0, Due(False, "no drift"), (), (), ()))
    assert [path.name for path in tmp_path.iterdir()] == ["watch.json"]


@pytest.mark.parametrize("at", ["1e400", "1e30", "1" + 400 * "0", "-1e15", "NaN"])
def test_a_look_at_no_time_is_none(tmp_path: Path, at: str) -> None:
    keep(tmp_path, Look(77.0, "", 0, 0, Due(False, "no drift"), (), (), ()))
    assert last_look(tmp_path) is not None
    file = tmp_path / "watch.json"
    file.write_text(file.read_text().replace("77.0", at))
    assert last_look(tmp_path) is None


def command(config: Config, *words: str) -> list[str]:
    """A slurmcast command with the site's configuration."""
    return [sys.executable, "-m", "slurmcast.cli", "--config", str(settings(config)), *words]


def test_two_trainings_at_a_time_are_one_too_many(config: Config) -> None:
    fill(config, jobs(60))
    with (
        recorded(config.paths.models, Training(1.0, "by hand", 60)),
        pytest.raises(TrainError, match="another training runs"),
    ):
        train_from_store(config)


def test_the_history_survives_what_was_cut(tmp_path: Path) -> None:
    with recorded(tmp_path, Training(1.0, "first", 10)) as end:
        end(True, "better", "m1")
    with (tmp_path / FILE).open("a") as file:
        file.write('{"began": 2.0, "beca')  # the disk was full
    with pytest.raises(OSError), recorded(tmp_path, Training(3.0, "third", 30, "m1")):
        raise OSError(errno.EIO, "Input/output error")
    found = trainings(tmp_path)
    assert [(t.because, t.result, t.model) for t in found] == [("first", "promoted", "m1"), ("third", "refused", "")]
    assert "Input/output error" in found[1].reason
    assert trainings(tmp_path / "nowhere") == []


def test_what_the_metrics_say(config: Config) -> None:
    assert metrics(config.paths.models) == ""
    every = jobs(115)
    fill(config, every[:80])
    train_when_due(config)
    late = [slower(example) for example in every[80:]]
    fill(config, late, first=80, promised=promised(config, late))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slurmcast.train._train", lambda *_: {"promoted": False, "reason": "worse"})
        train_when_due(config)
    values = dict(line.rsplit(" ", 1) for line in metrics(config.paths.models).splitlines() if line[0] != "#")
    told = {name.removeprefix("slurmcast_"): float(value) for name, value in values.items()}
    assert (told["drift"], told["labels"], told["labels_since_training"]) == (1, 115, 35)
    assert told['trainings_total{result="promoted"}'] == told['trainings_total{result="refused"}'] == 1
    last = {result: told[f'last_training_timestamp_seconds{{result="{result}"}}'] for result in ("promoted", "refused")}
    assert last["refused"] > last["promoted"] == told["last_promotion_timestamp_seconds"]
    assert told['recent_median_ape{target="time",partition="all"}'] > 0.4
    assert told['recent_coverage{target="time",partition="all"}'] < 0.5
    assert told['tested_coverage{target="time",partition="all"}'] > 0.5


def test_what_people_see(config: Config) -> None:
    fill(config, jobs(80))
    invoke = CliRunner().invoke
    words = command(config)[3:]
    shown = invoke(main, [*words, "train", "--when-due"])
    assert shown.exit_code == 0 and shown.stdout.startswith("Training was due: no model is in use.\nModel ")
    again = invoke(main, [*words, "train", "--when-due"])
    assert again.exit_code == 0 and again.stdout.startswith("Training isn't due: no drift, and 0 of 200 jobs")
    late = jobs(115)[80:]
    fill(config, late, first=80, promised=promised(config, late))
    assert "Training isn't due: no drift, and 35 of 200 jobs" in invoke(main, [*words, "train", "--when-due"]).stdout
    listed = invoke(main, [*words, "train", "--list"]).stdout
    assert "Estimates of the last jobs" in listed and "): no drift, and 35 of 200 jobs" in listed
    assert "Training isn't due (looked at 2" in listed
    answer: Any = json.loads(invoke(main, [*words, "train", "--when-due", "--json"]).stdout)
    assert answer["due"] is False
