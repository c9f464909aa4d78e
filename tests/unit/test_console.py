"""What all commands share: numbers, odd names and full disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurmcast import show
from slurmcast.cli import main

ODD = "[/red] [bold]x :bomb:"
EVIL = "\x1b]0;title\x07\r\x9b31m\u202e\udcff"
SWF_LINE = "1 0 0 100 1 -1 -1 1 200 -1 1 7 1 1 1 1 -1 -1\n"


@pytest.mark.parametrize("number", ["nan", "inf", "1e999"])
@pytest.mark.parametrize(
    "words",
    [
        ["kappa"],
        ["evaluate", "--share"],
        ["tune", "--noise"],
        ["simulate", "paper", "--noise"],
        ["simulate", "paper", "--unknown"],
        *(
            ["simulate", "replay", "swf", __file__, "--gpus", "v100=1", option]
            for option in ("--load", "--kappa", "--gamma", "--longest-wait", "--noise", "--unknown")
        ),
    ],
)
def test_only_finite_numbers_are_taken(words: list[str], number: str) -> None:
    result = CliRunner().invoke(main, [*words, number])
    assert result.exit_code == 2
    assert "finite" in result.stderr or "not in the range" in result.stderr


KAPPA = {"kappa": 1.0, "partition": None, "qos": ODD, "since": 1.7e9, "by": ODD}
JOB = {"job_id": 1, "user": ODD, "name": ODD, "partition": "a100", "estimates": [], "rank": 0, "reason": ODD}


TABLES = [
    (show.queue, {"jobs": [JOB]}),
    (show.kappa, KAPPA),
    (show.kappa_history, {"settings": [KAPPA]}),
    (show.checks, [{"ok": False, "name": "hook", "detail": ODD, "remedy": ODD}]),
    (show.explanation, {"job_id": 1, "reason": ODD, "estimates": [], "eligibility": [], "values": []}),
    (show.released, [{"job_id": 1, "detail": ODD}]),
]


@pytest.mark.parametrize(("table", "answer"), TABLES)
def test_names_are_printed_as_they_are(
    table: Callable[[Any], None], answer: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    table(answer)
    assert ODD in capsys.readouterr().out


def replaced(value: Any) -> Any:
    """``value`` with EVIL for each ODD."""
    if isinstance(value, dict):
        return {key: replaced(item) for key, item in value.items()}
    return [replaced(item) for item in value] if isinstance(value, list) else EVIL if value == ODD else value


@pytest.mark.parametrize(("table", "answer"), TABLES)
def test_what_a_terminal_would_obey_is_not_printed(
    table: Callable[[Any], None], answer: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    table(replaced(answer))
    shown = capsys.readouterr().out
    assert "\N{REPLACEMENT CHARACTER}]0;title" in shown
    assert not set(EVIL) - set("]0;title31m") & set(shown)


@pytest.mark.parametrize("command", ["replay", "paper"])
def test_a_full_disk_under_a_plot_loses_no_figures(tmp_path: Path, command: str) -> None:
    log, plot = tmp_path / "log.swf", tmp_path / "plot.svg"
    log.write_text(SWF_LINE)
    plot.symlink_to("/dev/full")
    words = {"replay": ["replay", "swf", str(log), "--gpus", "v100=1"], "paper": ["paper", "--samples", "1"]}[command]
    result = CliRunner().invoke(main, ["simulate", *words, "--policies", "easy", "--json", "--plot", str(plot)])
    assert result.exit_code == 1 and json.loads(result.stdout)
    assert result.stderr.splitlines()[-1] == f"Error: {plot}: No space left on device"


@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_under_the_output_is_one_line(tmp_path: Path, form: list[str], buffering: str) -> None:
    log = tmp_path / "log.swf"
    log.write_text(SWF_LINE)
    words = ["simulate", "replay", "swf", str(log), "--gpus", "v100=1", "--policies", "value", *form]
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "slurmcast.cli", *words]
        environ = {**os.environ, "PYTHONUNBUFFERED": buffering}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environ)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "Error: No space left on device")
    assert "Traceback" not in done.stderr
