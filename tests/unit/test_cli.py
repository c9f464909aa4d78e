"""The commands' manners: exit status, errors that say what to do, tables that hold what the JSON holds."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurmcast import show
from slurmcast.cli import JobId, main
from slurmcast.evaluation.show import versions

NOBODY = 65534
ESTIMATE = {
    "partition": "a100",
    "gpus": 2,
    "time_s": {"p10": 600.0, "p50": 960.0, "p90": 1200.0},
    "energy_kwh": {"p10": 0.1, "p50": 0.12, "p90": 0.15},
    "source": "probe",
}
UNKNOWN = {"partition": "a6000", "gpus": 2, "time_s": None, "energy_kwh": None, "source": "unknown"}
VALUE = {"partition": "a100", "a": 2, "t_s": 960.0, "e_kwh": None, "kappa": 0.01, "v": 5.2e-4}
EXPLAIN: dict[str, Any] = {
    "job_id": 7,
    "estimates": [ESTIMATE, UNKNOWN],
    "eligibility": [{"partition": "a100", "may": "move", "reason": "The job fits here."}],
    "values": [VALUE],
    "rank": 3,
    "decision": {"partition": "a100", "site_factor": 4711, "at": 1700000000.0},
    "reason": "a100 has the best value for it, and it waits there.",
}


def invoke(tmp_path: Path, *arguments: str, config: str = "") -> Result:
    path = tmp_path / "slurmcast.toml"
    path.write_text(config or f'[paths]\nrun_dir = "{tmp_path}"\nstate_dir = "{tmp_path}/state"\n')
    return CliRunner().invoke(main, ["--config", str(path), *arguments])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["explain", "abc"], 2, "not a valid job id"),
        (["explain", "0"], 2, "0"),
        (["explain", "7_x"], 1, "start it"),
        (["explain", "_7"], 2, "not a valid job id"),
        (["explain", "99999999999"], 2, "not in the range"),
        (["explain"], 2, "Missing argument"),
        (["kappa", "--", "-1"], 2, "-1"),
        (["kappa", "much"], 2, "'much' is not a valid number"),
        (["predict", "/nonexistent.sh"], 2, "does not exist"),
        (["nothing"], 2, "No such command"),
        (["explain", "7"], 1, "start it"),
        (["queue"], 1, "start it"),
        (["train", "--kind", "guess"], 2, "size+ratio"),
    ],
)
def test_exit_status_and_what_to_do(tmp_path: Path, arguments: list[str], status: int, words: str) -> None:
    result = invoke(tmp_path, *arguments)
    assert result.exit_code == status, result.output
    assert words in result.output


def test_a_task_of_an_array_is_the_array() -> None:
    assert [JobId(min=1).convert(word, None, None) for word in ("7", "7_1", "7_[2-5]")] == [7, 7, 7]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_a_file_that_may_not_be_read_is_one_line() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "journal.jsonl").touch(0o600)
        (folder / "slurmcast.toml").write_text(f'[paths]\nagent_state_dir = "{folder}"\n')
        os.seteuid(NOBODY)
        try:
            result = CliRunner().invoke(main, ["--config", str(folder / "slurmcast.toml"), "release"])
        finally:
            os.seteuid(0)
    assert result.exit_code == 1 and "journal.jsonl: Permission denied; run as root" in result.output


def test_a_bad_configuration_is_one_line(tmp_path: Path) -> None:
    result = invoke(tmp_path, "queue", config="[agent]\nkapa = 1\n")
    assert result.exit_code == 1
    assert "unknown key agent.kapa" in result.output and "kappa" in result.output
    assert "Traceback" not in result.output


def test_release_without_a_journal_has_nothing_to_do(tmp_path: Path) -> None:
    config = f'[paths]\nagent_state_dir = "{tmp_path}"\n'
    result = invoke(tmp_path, "release", "--json", config=config)
    assert result.exit_code == 0 and json.loads(result.output) == []


def test_explanation_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    show.explanation(EXPLAIN)
    shown = capsys.readouterr().out
    for words in ("Job 7", "best value", "16 min", "0.12 kWh", "unknown", "The job fits here.", "rank 3", "4711"):
        assert words in shown


def test_a_price_is_shown_where_energy_is_weighed_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    show.explanation(EXPLAIN | {"values": [{**VALUE, "energy_weight": 1.37}]})
    shown = capsys.readouterr().out
    assert "kappa w e" in shown and "w: price" in shown and "1.37" in shown
    show.explanation(EXPLAIN | {"values": [{**VALUE, "energy_weight": 1.0}]})
    assert "w: price" not in capsys.readouterr().out


def test_what_an_estimate_was_made_from(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {**EXPLAIN, "made_from": "script and sources", "sources": ["/home/alice/train.py", "/home/alice/model.py"]}
    show.explanation(answer)
    show.prediction(answer)
    shown = "Made from: script and sources (train.py, model.py)\n"
    assert capsys.readouterr().out.count(shown) == 2
    show.prediction({**EXPLAIN, "made_from": "script only", "sources": []})
    assert "Made from: script only\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("time_s", "energy_kwh", "words"),
    [
        ((180, 1440, 3600), (0.012, 0.096, 0.24), ["24 min (3 to 60)", "0.096 kWh (0.012 to 0.24)"]),
        ((12, 100, 7200), (720, 7201.3, 12345.6), ["100 s (12 to 7,200)", "7,201 kWh (720 to 12,346)"]),
        ((3153.6, 3153.6, 3153.6), (999.4, 999.5, 999.6), ["52.6 min (52.6 to 52.6)", "1,000 kWh (999 to 1,000)"]),
    ],
)
def test_intervals_are_told_in_one_unit_and_without_exponents(
    time_s: tuple[float, ...], energy_kwh: tuple[float, ...], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("p10", "p50", "p90")
    estimate = {
        "time_s": dict(zip(names, time_s, strict=True)),
        "energy_kwh": dict(zip(names, energy_kwh, strict=True)),
    }
    show.prediction({"estimates": [ESTIMATE | estimate]})
    shown = capsys.readouterr().out
    assert all(word in shown for word in words)


@pytest.mark.parametrize(
    ("limit_s", "told"),
    [(None, ""), (959, "Its time limit of 16 min is more likely than not to end it on a100."), (960, "")],
)
def test_a_time_limit_that_is_too_short_is_said(
    limit_s: float | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = {} if limit_s is None else {"time_limit_s": limit_s}
    for tell in (show.prediction, show.explanation):
        tell(EXPLAIN | {"numbers": numbers})
        shown = capsys.readouterr().out
        assert told in shown and bool(told) == ("Its time limit" in shown)


def test_versions_can_be_copied_and_what_ails_one_is_told_below(capsys: pytest.CaptureFixture[str]) -> None:
    version, error = "20261130-122122-393525b7", "/var/lib/slurmcast/models/x/model.json: format is 6: train again"
    broken = {"version": version, "state": "in use", "error": error}
    sound = {"version": version[::-1], "state": "before", "kind": "log", "figures": {"examples": 9}}
    versions({"versions": [broken, sound], "watch": None})
    shown = capsys.readouterr().out
    assert f"{version}  in use  can't be used" in shown and version[::-1] in shown
    assert f"\n{error}\n" in shown


def test_numbers_are_shown_as_they_were_written(capsys: pytest.CaptureFixture[str]) -> None:
    show.prediction(EXPLAIN | {"numbers": {"samples": 1281167.0, "epochs": 90.0, "mask_ratio": 0.75}})
    assert "Numbers found: epochs 90, mask_ratio 0.75, samples 1281167\n" in capsys.readouterr().out


@pytest.mark.parametrize("estimates", [[ESTIMATE], []])
def test_what_the_daemon_remarks_is_shown(estimates: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    show.prediction(EXPLAIN | {"estimates": estimates, "remark": "The script names nosuch."})
    shown = capsys.readouterr().out
    assert "The script names nosuch.\n" in shown and ("Nothing can be said" in shown) is not bool(estimates)


def test_where_no_time_is_known_it_is_said_why(capsys: pytest.CaptureFixture[str]) -> None:
    for tell in (show.prediction, show.explanation):
        tell(EXPLAIN | {"estimates": [UNKNOWN, UNKNOWN]})
        assert "no time limit (--time)" in capsys.readouterr().out
        tell(EXPLAIN | {"estimates": [ESTIMATE, UNKNOWN]})
        assert "no time limit (--time)" not in capsys.readouterr().out


def test_queue_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    show.queue({"jobs": [{**EXPLAIN, "user": "alice", "name": "train", "partition": "a100"}]})
    assert "alice" in capsys.readouterr().out
    show.queue({"jobs": []})
    assert "No pending GPU jobs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "unknown"), (45, "45 s"), (720, "12 min"), (12600, "3.5 h"), (200000, "2.31 d")],
)
def test_durations(seconds: float | None, words: str) -> None:
    assert show.duration(seconds) == words
