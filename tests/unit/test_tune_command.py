"""``slurmcast tune`` on a store's history, with a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from slurmcast.cli import main
from slurmcast.config import Config, load
from slurmcast.model import Estimate, GpuRequest, Interval, Job, Outcome, Reading, Source
from slurmcast.simulate.tuning import DAY_S
from slurmcast.store.store import Store
from tests.unit.daemon_harness import Daemon, daemon_in
from tests.unit.store_world import submitted

BEGAN = 1_700_000_000
DAYS, JOBS = 12, 10
"""Twelve days, each with as many jobs that come at once."""


def interval(value: float) -> Interval:
    return Interval(value / 2, value, value * 2)


def fill(config: Config, days: int) -> None:
    """Jobs of one GPU that ran on a100 and would take twice as long, but a fifth of the energy, on a6000."""
    store, rng = Store(config.paths.store, config.cluster), np.random.default_rng(0)
    for number in range(days * JOBS):
        at = int(BEGAN + number // JOBS * DAY_S)
        time_s = float(rng.lognormal(7.5, 1))
        kwh = time_s * 0.4 / 3600
        script = b"#!/bin/bash\n# %d" % number
        reading = Reading(f"key{number}", "", {}, GpuRequest(per_job=1), 1, (), 10**6)
        estimates = [
            Estimate("a100", 1, interval(time_s), interval(kwh), Source.PROBE),
            Estimate("a6000", 1, interval(2 * time_s), interval(kwh / 5), Source.PROBE),
        ]
        job = Job(number + 1, "alice", 1000, "job", "PENDING", "", ("a100",), at)
        submitted(store, job, reading, estimates, script, f"text{number}")
        start = at + number % JOBS // 4 * 7200
        store.add_outcomes(
            [Outcome(number + 1, at, "a100", "a100", 1, "COMPLETED", start, start + int(time_s), time_s, kwh)]
        )
    store.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in(tmp_path_factory.mktemp("tune")) as made:
        made.settings = '[agent]\npolicy = "patient"\nkappa = 0.0\n'
        made.config.paths.state_dir.mkdir()
        fill(made.config, DAYS)
        made.start()
        yield made


def tune(daemon: Daemon, *words: str) -> Result:
    shared = ("--days", "100000", "--gpus", "a100=4,a6000=8", "--seed", "1")
    return CliRunner().invoke(main, ["--config", str(daemon.config_path), "tune", *shared, *words])


def told(daemon: Daemon, *words: str) -> dict[str, Any]:
    result = tune(daemon, *words, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_energy_is_worth_a_larger_kappa_and_apply_sets_it(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "tradeoff.svg"
    answer = told(daemon, "--objective", "energy", "--plot", str(path))
    assert (answer["jobs"], answer["blocks"]) == (DAYS * JOBS, {"kind": "days", "count": DAYS})
    assert (answer["source"], answer["policy"]) == ("history", "patient")
    best, now = answer["recommended"], answer["present"]
    assert now["kappa"] == 0 and best["kappa"] > 0
    assert best["energy_kwh"] < 0.8 * now["energy_kwh"] and best["wait_s"] > now["wait_s"]
    assert answer["sure"] and answer["gain"]["p05"] > 0.1
    assert answer == told(daemon, "--objective", "energy")
    drawn = path.read_text()
    assert "energy in kWh" in drawn and f"recommended: kappa = {best['kappa']:g}" in drawn

    assert daemon.ask("GET", "/v1/kappa")["by"] is None, "nothing is set without --apply"
    applied = told(daemon, "--objective", "energy", "--apply")
    held = daemon.ask("GET", "/v1/kappa")
    assert held["kappa"] == best["kappa"] == applied["applied"]["kappa"] and held["by"] == "root"
    again = told(daemon, "--objective", "energy")
    assert again["present"]["kappa"] == best["kappa"] and not again["sure"]
    daemon.ask("PUT", "/v1/kappa", {"kappa": None})


def test_the_tables_tell_the_same(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    printed = tune(daemon, "--objective", "energy").output
    for words in (
        "mean wait",
        "* recommended",
        f"on all {DAYS} days",
        "It does better also on days",
        "Next to EASY",
        "120 runs",
    ):
        assert words in printed, printed


def test_what_is_not_sure_is_not_applied(daemon: Daemon) -> None:
    result = tune(daemon, "--objective", "wait", "--apply")
    assert result.exit_code == 1
    assert "Error: not set: The present kappa is the best" in result.output and "Keep what is set." in result.output
    assert daemon.ask("GET", "/v1/kappa")["kappa"] == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--objective", "speed"], 2, "'speed': must be run, wait, energy, or three weights"),
        (["--policy", "easy"], 2, "policy easy has no kappa to tune; these have: value, "),
        (["--policy", "best"], 2, "there is no policy 'best'"),
        (["--days", "1"], 1, "no GPU job of that time has finished"),
        (["--gpus", "a100=x"], 2, "--gpus a100=x"),
        (["--gpus", "nope=3"], 2, "--gpus: nope is neither a partition (a100"),
        (["--days", "1", "--gpus", "nope=3"], 2, "--gpus: nope is neither a partition (a100"),
        (["--gpus", "a100=4,nope=3"], 2, "--gpus: nope is neither a partition (a100"),
        (["--plot", "x.gif"], 1, "must end with one of"),
    ],
)
def test_what_can_not_be_tuned(daemon: Daemon, words: list[str], code: int, message: str) -> None:
    result = tune(daemon, *words)
    assert result.exit_code == code
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    "words",
    [
        ["--history", "--samples", "3"],
        ["--samples", "3"],
        ["--synthetic", "--days", "3"],
        ["--synthetic", "--gpus", "a100=4"],
        ["--synthetic", "--apply"],
    ],
)
def test_options_that_go_with_other_work_are_refused(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text("")
    result = CliRunner().invoke(main, ["--config", str(path), "tune", *words])
    refused = [word for word in words if word.startswith("--")][-1]
    assert result.exit_code == 2 and f"{refused} goes with " in result.output


@pytest.mark.parametrize(("path", "message"), [("/nowhere.csv", "No such file"), ("/dev/zero", "is no file")])
def test_a_price_file_that_can_not_be_read(tmp_path: Path, path: str, message: str) -> None:
    config = tmp_path / "slurmcast.toml"
    config.write_text(f'[agent]\nprice_file = "{path}"\n')
    result = CliRunner().invoke(main, ["--config", str(config), "tune", "--synthetic", "--samples", "1"])
    assert result.exit_code == 1 and f"agent.price_file {path}: {message}" in result.output


def test_what_was_found_is_printed_whatever_else_fails(tmp_path: Path) -> None:
    path, plot = tmp_path / "slurmcast.toml", tmp_path / "plot.svg"
    state = f'cluster = "test"\n[paths]\nrun_dir = "{tmp_path}"\nstate_dir = "{tmp_path}"\n'
    path.write_text(state + '[agent]\npolicy = "patient"\nkappa = 0.0\n')
    fill(load(path), DAYS)
    plot.symlink_to("/dev/full")
    words = [
        "--days",
        "100000",
        "--gpus",
        "a100=4,a6000=8",
        "--objective",
        "energy",
        "--seed",
        "1",
        "--json",
        "--apply",
    ]
    result = CliRunner().invoke(main, ["--config", str(path), "tune", *words, "--plot", str(plot)])
    assert result.exit_code == 1 and json.loads(result.stdout)["sure"]
    assert "not set: slurmcastd doesn't run here" in result.stderr
    assert f"{plot}: No space left on device" in result.stderr and result.stderr.count("\n") == 1


def test_without_a_daemon_the_configuration_holds(tmp_path: Path) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text(f'[paths]\nrun_dir = "{tmp_path}"\nstate_dir = "{tmp_path}"\n[agent]\nkappa = 0.0002\n')
    words = ["--config", str(path), "tune", "--synthetic", "--samples", "2", "--json"]
    answer = json.loads(CliRunner().invoke(main, words).stdout)
    assert answer["present"]["kappa"] == 0.0002 and "slurmcastd doesn't answer" in answer["notes"][0]
    assert answer["source"] == "synthetic" and not answer["sure"]


def test_made_up_work_sets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text(f'[paths]\nrun_dir = "{tmp_path}"\nstate_dir = "{tmp_path}"\n')
    words = ["--config", str(path), "tune", "--synthetic", "--samples", "8"]
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["sure"]
    printed = CliRunner().invoke(main, words).output
    assert "It does better also on samples" in printed and "let its own jobs say" in printed
    assert "sets it" not in printed
