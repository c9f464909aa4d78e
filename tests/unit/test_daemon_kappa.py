"""Kappa in general, for a partition and for a QOS: by the command, through a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.client import ClientError
from slurmcast.policy.kappa import Kappas
from tests.unit.daemon_harness import ALICE, Daemon, daemon_in, record

SETTINGS = """
[agent]
kappa = 0.001
[[qos]]
name = "urgent"
kappa = 0.0
[[partition]]
name = "old"
kappa = 0.004
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in(tmp_path_factory.mktemp("kappa")) as made:
        made.settings = SETTINGS
        made.start()
        yield made


def kappa(daemon: Daemon, *words: str) -> str:
    result = CliRunner().invoke(main, ["--config", str(daemon.config_path), "kappa", *words])
    assert result.exit_code == 0, result.output
    return result.output


def shown(daemon: Daemon, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kappa(daemon, *words, "--json"))
    return answer


def test_a_qos_that_no_pending_job_has_may_be_a_slip(daemon: Daemon) -> None:
    daemon.look(record(7, qos="night"))
    assert "is the name right?" in kappa(daemon, "0.1", "--qos", "nihgt")
    assert "is the name right?" not in kappa(daemon, "0.1", "--qos", "Night")
    assert shown(daemon, "0.1", "--qos", "night")["pending_jobs"] == 1
    assert agents(daemon)["qos"] == {"urgent": 0.0, "nihgt": 0.1, "night": 0.1}
    assert "pending_jobs" not in shown(daemon, "--qos", "night"), "users aren't told of others' jobs"


def agents(daemon: Daemon) -> dict[str, Any]:
    """What the agent's next look brings."""
    answer: dict[str, Any] = daemon.ask("POST", "/v1/agent/jobs", {"jobs": []})["kappa"]
    return answer


def test_what_holds_for_whom() -> None:
    kappas = Kappas(1.0, {"a100": 2.0}, {"urgent": 3.0})
    expected = [[2.0, 1.0], [3.0, 3.0]]
    assert np.array_equal(kappas.matrix(["normal", "urgent"], ["a100", "a6000"]), expected)
    assert kappas.matrix([], ["a100"]).shape == (0, 1)


@pytest.fixture(autouse=True)
def reset(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing is left of what a test sets."""
    yield
    if "daemon" in request.fixturenames:
        daemon = request.getfixturevalue("daemon")
        for setting in [daemon.ask("GET", "/v1/kappa"), *daemon.ask("GET", "/v1/kappa")["others"]]:
            scope = {name: setting[name] or "" for name in ("partition", "qos")}
            daemon.ask("PUT", "/v1/kappa", {"kappa": None, **scope})


def test_set_for_partition_and_qos_and_taken_back(daemon: Daemon) -> None:
    assert agents(daemon) == {"general": 0.001, "partition": {"old": 0.004}, "qos": {"urgent": 0.0}}
    assert shown(daemon, "0.002")["kappa"] == 0.002
    assert shown(daemon, "0.003", "--partition", "a100") | {"since": 0} == {
        "kappa": 0.003, "partition": "a100", "qos": None, "by": "root", "since": 0,
    }  # fmt: skip
    kappa(daemon, "0.005", "--partition", "old")
    kappa(daemon, "0.006", "--qos", "night")
    expected = {"general": 0.002, "partition": {"a100": 0.003, "old": 0.005}, "qos": {"night": 0.006, "urgent": 0.0}}
    assert agents(daemon) == expected
    daemon.end()
    daemon.start()
    assert agents(daemon) == expected, "kept over a restart"

    for words in ([], ["--partition", "old"], ["--partition", "a100"], ["--qos", "night"]):
        kappa(daemon, "--reset", *words)
    assert agents(daemon) == {"general": 0.001, "partition": {"old": 0.004}, "qos": {"urgent": 0.0}}
    history = shown(daemon, "--history")["settings"][:8]
    assert [entry["kappa"] for entry in history] == [None] * 4 + [0.006, 0.005, 0.003, 0.002]
    assert (history[0]["qos"], history[6]["partition"], history[0]["by"]) == ("night", "a100", "root")
    assert "back to the configuration" in kappa(daemon, "--history")


@pytest.mark.parametrize(
    ("words", "value", "whose"),
    [
        ([], 0.001, (None, None)),
        (["--partition", "old"], 0.004, ("old", None)),
        (["--partition", "a100"], 0.001, (None, None)),
        (["--qos", "urgent", "--partition", "old"], 0.0, (None, "urgent")),
        (["--qos", "other", "--partition", "old"], 0.004, ("old", None)),
    ],
)
def test_what_is_shown_is_what_holds(
    daemon: Daemon, words: list[str], value: float, whose: tuple[str | None, str | None]
) -> None:
    answer = shown(daemon, *words)
    assert (answer["kappa"], (answer["partition"], answer["qos"])) == (value, whose)


def test_the_table_names_them_all(daemon: Daemon) -> None:
    kappa(daemon, "0.25", "--qos", "night")
    printed = kappa(daemon)
    for words in (
        "kappa = 0.001 1/(GPU s kWh), from the configuration",
        "kappa on partition old = 0.004",
        "kappa of QOS urgent = 0 ",
        "kappa of QOS night = 0.25 1/(GPU s kWh), set by root at 20",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["1", "--partition", "olde"], 2, "manages no partition olde; it manages old, a100, a6000"),
        (["--partition", "olde"], 2, "manages no partition olde"),
        (["1", "--partition", "old", "--qos", "urgent"], 2, "for a partition or for a QOS"),
        (["inf"], 2, "finite"),
        (["1e300"], 2, "a number from 0 to 1e+09"),
        (["1", "--partition", ""], 2, "'' is no name"),
        (["1", "--qos", " "], 2, "' ' is no name"),
        (["1", "--qos", "a\x1b[31m"], 2, "is no name"),
        (["1", "--qos", 300 * "a"], 2, "at most 256 characters"),
        (["--history", "--qos", "urgent"], 2, "--history shows all"),
        (["1", "--reset"], 2, "different things"),
        (["--history", "--reset"], 2, "different things"),
    ],
)
def test_what_is_refused(daemon: Daemon, words: list[str], status: int, message: str) -> None:
    result = CliRunner().invoke(main, ["--config", str(daemon.config_path), "kappa", *words])
    assert result.exit_code == status
    assert message in " ".join(result.output.split())


def test_only_operators_set_it(daemon: Daemon) -> None:
    with pytest.raises(ClientError, match="only operators"):
        daemon.ask_as(ALICE, "PUT", "/v1/kappa", {"kappa": None})
    assert daemon.ask_as(ALICE, "GET", "/v1/kappa")["kappa"] == 0.001
