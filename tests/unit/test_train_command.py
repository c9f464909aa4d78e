"""``slurmcast train``: tested before it is put to use, listed, taken back, pruned; on real stores and real models."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurmcast.cli import main
from slurmcast.config import Config, ProbeConfig
from slurmcast.encoder.kinds import name_of
from slurmcast.evaluate import evaluate
from slurmcast.evaluation.promotion import verdict
from slurmcast.probe import Registry
from slurmcast.train import TrainError, rollback, train_from_store, versions
from tests.unit.store_world import BEGAN, fill, jobs, settings, site


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return site(tmp_path)


def current(config: Config) -> str | None:
    return Registry(config.paths.models).current()


def test_the_first_model_is_put_to_use_where_it_beats_what_is_given_without_one(config: Config) -> None:
    fill(config, jobs(100))
    answer = train_from_store(config)
    assert answer["promoted"] and answer["reason"].startswith("better than no model on the 20 newest jobs")
    model = Registry(config.paths.models).load(name_of(config.encoder))
    assert model.version == answer["model"] and model.figures["examples"] == 100
    assert model.figures["learned_until"] == BEGAN + 60 * 100 + 1


def test_a_model_that_is_worse_than_none_is_not_put_to_use_unless_forced(config: Config) -> None:
    every = jobs(100)
    fill(config, every[:80])
    changed = [replace(example, time_s=1800.0, energy_kwh=None) for example in every[80:]]
    fill(config, changed, first=80, first_uid=100_000)  # new users, for whom known scripts take half an hour
    answer = train_from_store(config)
    assert not answer["promoted"] and answer["reason"].startswith("worse than no model")
    assert (Registry(config.paths.models).versions(), current(config)) == ([], None)
    first, second = run(config, "train").stdout.splitlines()
    assert first.startswith("Not put to use: worse than no model") and second.startswith("slurmcast train --force puts")
    forced = train_from_store(config, force=True)
    assert forced["promoted"] and forced["forced"] and forced["model"] == current(config)


def test_the_model_in_use_is_tested_itself_on_the_jobs_since(config: Config) -> None:
    every = jobs(150)
    fill(config, every[:100])
    first = train_from_store(config)["model"]
    fill(config, every[100:130], first=100)
    answer = train_from_store(config)
    assert answer["promoted"] and f"the model in use ({first}) on the 26 newest jobs" in answer["reason"]


def test_one_that_has_seen_the_test_is_stood_for_by_its_kind(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmcast.probe.network.EPOCHS", 2)  # a network that has hardly learned
    fill(config, jobs(60))
    first = train_from_store(config)["model"]
    answer = train_from_store(config, kind="paper")
    assert not answer["promoted"] and current(config) == first
    assert "worse than a model of the kind in use, size+ratio, trained on the same jobs" in answer["reason"]
    again = train_from_store(config)
    assert again["promoted"] and "better than no model on the 12 newest jobs" in again["reason"]


@pytest.mark.parametrize("other", ["h100", ""])
def test_a_partition_may_have_gpus_of_several_types(config: Config, other: str) -> None:
    fill(config, jobs(100))
    with closing(sqlite3.connect(config.paths.store)) as store, store:
        some = "UPDATE outcome SET outcome = json_set(outcome, '$.gpu_type', ?) WHERE job_id % 3 = 0"
        store.execute(some, (other,))
    answer = train_from_store(config)
    assert answer["examples"] == 100 and "the 20 newest jobs" in answer["reason"]
    assert evaluate(config, 0.8)["newer"] == 20


def test_a_model_of_another_encoder_counts_as_none(config: Config) -> None:
    fill(config, jobs(100))
    train_from_store(config)
    path = config.paths.models / str(current(config)) / "model.json"
    path.write_text(path.read_text().replace(name_of(config.encoder), "former"))
    assert "no model on the" in train_from_store(config)["reason"]


@pytest.mark.parametrize(
    ("ours", "theirs", "against", "promote"),
    [
        ([1.0, 1.0, 1.0], [2.0, 2.0, 3.0], "no model", True),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "no model", False),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "the model in use", True),
        ([2.0, 1.0, 1.0], [1.0, 1.0, 1.0], "the model in use", True),  # worse by chance, as far as can be told
        ([2.0, 2.0, 2.1], [1.0, 1.0, 1.0], "the model in use", False),
    ],
)
def test_the_verdict(ours: list[float], theirs: list[float], against: str, promote: bool) -> None:
    found = verdict(ours, theirs, against)
    assert (found.promote, found.tested) == (promote, 3)
    assert against in found.reason and ("worse" in found.reason) is not promote


@pytest.mark.parametrize(("count", "problem"), [(0, "are too few"), (13, "are too few"), (14, "are too few")])
def test_too_few_jobs_to_test_with_are_said(config: Config, count: int, problem: str) -> None:
    fill(config, jobs(count, both=0.0))
    answer = train_from_store(config)
    assert not answer["promoted"] and problem in answer["reason"]
    if count >= 13:
        assert train_from_store(config, force=True)["promoted"]
    else:
        with pytest.raises(TrainError, match="run more jobs"):
            train_from_store(config, force=True)


def test_a_training_that_comes_to_nothing_says_only_what_is_true(config: Config) -> None:
    every = jobs(14, both=0.0)
    for first in (0, 10, 20):  # the same works again and again
        fill(config, every[:10], first=first)
    lines = run(config, "train", "--when-due").stdout.splitlines()
    assert lines[0] == "Training was due: no model is in use." and len(lines) == 2
    assert lines[1].startswith("Not trained: ") and "are too few" in lines[1]
    lines = run(config, "train", "--list").stdout.splitlines()
    assert lines[0] == "No model has been trained yet." and lines[-1].startswith("Training isn't due (looked at 2")
    assert "no model is in use, but it takes 20 finished jobs since the last training: 0 so far" in lines[-1]
    assert answer_of(config, "train", "--list")["watch"]["labels"] == 30
    fill(config, every[10:], first=30)
    name = train_from_store(config, force=True)["model"]
    assert run(config, "train").stdout.splitlines()[1:] == [f"Model {name} stays in use."]


def test_old_models_are_pruned_but_not_the_one_before(config: Config) -> None:
    fill(config, jobs(40))
    config = replace(config, probe=ProbeConfig(keep=1))
    names = []
    for seed in range(4):
        fill(config, jobs(1, seed=seed + 5), first=40 + seed)
        names.append(train_from_store(config, force=True)["model"])
    registry = Registry(config.paths.models)
    assert set(registry.versions()) == set(names[-2:]) and registry.before() == [names[-2]]
    rollback(config)
    assert registry.prune(1) == []  # the newest is kept, and the one in use
    with pytest.raises(TrainError, match="no version was in use before"):
        rollback(config)


def run(config: Config, *words: str) -> Result:
    """A slurmcast command with the site's configuration."""
    return CliRunner().invoke(main, ["--config", str(settings(config)), *words])


def answer_of(config: Config, *words: str) -> Any:
    done = run(config, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_by_hand_forth_and_back(config: Config) -> None:
    listed = run(config, "train", "--list").stdout
    assert "No model has been trained yet" in listed and "Nobody has looked yet whether training is due" in listed
    fill(config, jobs(100))
    made = []
    for number in range(3):
        fill(config, jobs(1, seed=number + 5), first=100 + number)
        made.append(answer_of(config, "train", "--force")["model"])
    listed = answer_of(config, "train", "--list")["versions"]
    assert [(m["version"], m["state"]) for m in listed] == [
        (made[2], "in use"),
        (made[1], "before"),
        (made[0], "before"),
    ]
    assert listed[0]["figures"]["examples"] == 103
    assert answer_of(config, "train", "--rollback") == {"model": made[1], "former": made[2]}
    assert f"{made[0]} is in use again, in place of {made[1]}" in " ".join(
        run(config, "train", "--rollback").stdout.split()
    )
    assert answer_of(config, "train", "--rollback", made[2])["model"] == made[2]
    assert "size+ratio" in run(config, "train", "--list").stdout
    unknown = run(config, "train", "--rollback", "nonsense")
    assert unknown.exit_code == 1 and "no version 'nonsense'" in unknown.stderr
    assert "prior" in run(config, "evaluate").stdout


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("train", "--kind", "magic"), 2, "not one of 'paper', 'log'"),
        (("train", "--rollback"), 1, "no version was in use before"),
        (("train", "--list", "--rollback"), 2, "four different things"),
        (("train", "--force", "--list"), 2, "four different things"),
        (("train", "--force", "--when-due"), 2, "four different things"),
        (("train", "--when-due"), 1, "store.db: no such file; run this where slurmcastd runs"),
        (("train",), 1, "store.db: no such file; run this where slurmcastd runs"),
        (("evaluate",), 1, "store.db: no such file; run this where slurmcastd runs"),
        (("evaluate", "--share", "1"), 2, "not in the range"),
    ],
)
def test_what_cannot_be_done_is_said(config: Config, words: tuple[str, ...], code: int, problem: str) -> None:
    done = run(config, *words)
    assert (done.exit_code, "Traceback" in done.output) == (code, False)
    assert problem in done.output
    assert not config.paths.store.exists(), "nothing is made where there was nothing"


@pytest.mark.parametrize("words", [["train"], ["train", "--when-due"], ["train", "--rollback"], ["evaluate"]])
def test_another_user_than_the_store_s_leaves_nothing(config: Config, words: list[str]) -> None:
    fill(config, jobs(20))
    shutil.chown(config.paths.store, "daemon")
    done = run(config, *words)
    told = f"this is to be run as daemon, not as root: runuser -u daemon -- slurmcast {words[0]}"
    assert (done.exit_code, done.stderr) == (1, f"Error: {told}\n")
    assert not config.paths.models.exists()
    assert run(config, "train", "--list").exit_code == 0, "which only reads"


@pytest.mark.parametrize("command", [["train"], ["evaluate"], ["tune", "--days", "100000"]])
@pytest.mark.parametrize("row", ["{", "{}", "[]"])
def test_a_damaged_row_is_said(config: Config, command: list[str], row: str) -> None:
    fill(config, jobs(3))
    with closing(sqlite3.connect(config.paths.store)) as database, database:
        database.execute("UPDATE outcome SET outcome = ?", (row,))
    done = run(config, *command)
    assert done.exit_code == 1 and "store.db can't be read: " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("field", "amount"), [("energy_kwh", -1.0), ("energy_kwh", 1e300), ("elapsed_s", -5.0), ("elapsed_s", 1e300)]
)
def test_runs_that_can_not_be_are_left_out_and_counted(config: Config, field: str, amount: float) -> None:
    fill(config, jobs(60))
    with closing(sqlite3.connect(config.paths.store)) as store, store:
        some = f"UPDATE outcome SET outcome = json_set(outcome, '$.{field}', ?) WHERE job_id % 20 = 0"
        store.execute(some, (amount,))
    told = "Finished runs left out, whose times or energies are negative or beyond all measure: 3.\n"
    assert run(config, "evaluate").stdout.startswith(told)
    assert answer_of(config, "evaluate").items() >= {"older": 46, "newer": 11, "impossible": 3}.items()
    assert run(config, "train").stdout.startswith(told)
    assert answer_of(config, "train", "--force")["examples"] == 57


@pytest.mark.parametrize("command", [["train"], ["train", "--when-due"], ["evaluate"]])
def test_vectors_of_two_models_under_one_name_are_said(config: Config, command: list[str]) -> None:
    fill(config, jobs(30))
    with closing(sqlite3.connect(config.paths.state_dir / "embeddings.db")) as cache, cache:
        cache.execute("UPDATE vector SET vector = zeroblob(64 * 4) WHERE key = (SELECT min(key) FROM vector)")
    done = run(config, *command)
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert "embeddings.db: vectors of 32 and 64 numbers" in done.stderr


@pytest.mark.parametrize("command", [["train", "--force"], ["evaluate"]])
def test_jobs_whose_vectors_are_damaged_are_none_to_learn_from(
    config: Config, command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    fill(config, jobs(60, both=0.0))
    with closing(sqlite3.connect(config.paths.state_dir / "embeddings.db")) as cache, cache:
        cache.execute("UPDATE vector SET vector = substr(vector, 1, 33) WHERE key = (SELECT min(key) FROM vector)")
    answer = answer_of(config, *command)
    assert 40 < answer.get("examples", answer.get("older", 0) + answer.get("newer", 0)) < 60
    assert "embeddings.db: 1 damaged vectors" in caplog.text


def test_a_model_that_takes_longer_vectors_than_there_are_is_none(config: Config) -> None:
    fill(config, jobs(60))
    train_from_store(config, force=True)
    fill(config, jobs(90)[60:], first=60)
    with closing(sqlite3.connect(config.paths.state_dir / "embeddings.db")) as cache, cache:
        cache.execute("UPDATE vector SET vector = substr(vector, 1, 16 * 4)")
    assert {"in use": "no model is in use"}.items() <= evaluate(config)["left_out"].items()
    assert "no model on the" in train_from_store(config, force=True)["reason"]


@pytest.mark.parametrize(
    "settings", [b'{"format": 3}', b"", b"[]", b"\xff", 100_000 * b"["], ids=["older", "empty", "list", "bytes", "deep"]
)
def test_a_model_that_can_not_be_used_is_not_gone_back_to(config: Config, settings: bytes) -> None:
    fill(config, jobs(60))
    first = train_from_store(config, force=True)["model"]
    fill(config, jobs(1, seed=5), first=60)
    second = train_from_store(config, force=True)["model"]
    (config.paths.models / first / "model.json").write_bytes(settings)
    for words in (["--rollback"], ["--rollback", first]):
        done = run(config, "train", *words)
        assert done.exit_code == 1 and "train again" in done.stderr
    assert current(config) == second
    assert "train again" in " ".join(run(config, "train", "--list", "--json").stdout.split())


def test_a_damaged_model_is_listed_as_such(config: Config) -> None:
    fill(config, jobs(60))
    name = train_from_store(config, force=True)["model"]
    (config.paths.models / name / "model.safetensors").write_bytes(b"")
    (found,) = versions(config)["versions"]
    assert "sha256" in found["error"] and found["state"] == "in use"
    assert "sha256" in run(config, "train", "--list").stdout


def test_only_the_model_in_use_is_tried_out_to_be_listed(config: Config) -> None:
    fill(config, jobs(60))
    first = train_from_store(config, force=True)["model"]
    fill(config, jobs(1, seed=5), first=60)
    second = train_from_store(config, force=True)["model"]
    for version in (first, second):
        path = config.paths.models / version / "model.json"
        path.write_text(path.read_text().replace('"dimensions": 32', '"dimensions": 33'))  # its vectors have 32
    in_use, before = versions(config)["versions"]
    assert (in_use["version"], before["version"]) == (second, first)
    assert "shape" in in_use["error"] and "error" not in before
    with pytest.raises(TrainError, match="shape"):
        rollback(config)


def test_a_log_cut_by_a_crash_is_read_as_far_as_it_goes(config: Config) -> None:
    fill(config, jobs(60))
    first = train_from_store(config, force=True)["model"]
    with (config.paths.models / "promotions.jsonl").open("a", errors="surrogateescape") as log:
        log.write('\udcff\n{"at": 17000')
    assert Registry(config.paths.models).before() == []
    fill(config, jobs(1, seed=5), first=60)
    train_from_store(config, force=True)
    assert Registry(config.paths.models).before() == [first]
