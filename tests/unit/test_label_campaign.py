"""What is asked of Slurm while scripts, folders and commands change: Slurm's commands are stand-ins that write down
how they were called, and know of no job."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from slurmcast.label.campaign import Campaign
from slurmcast.label.plan import Exclusive, Rules, Stage, cell
from slurmcast.label.state import State
from slurmcast.label.words import Budget, Cell, Place
from slurmcast.label.works import work

PLACE = Place("a100", frozenset({"a100"}), 4, 3600)
BUDGET = Budget(gpu_hours=100)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Slurm's commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, prints in (("sbatch", "echo 7"), ("squeue", ""), ("sacct", ""), ("scancel", "")):
        (folder / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/{name}.calls\n{prints}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "50%j scripts" / "a.sh"
    path.parent.mkdir()
    path.write_text("#!/bin/bash\n#SBATCH --gpus=1 -t 10\nsleep 1\n")
    return path


def campaign(script: Path, *arguments: str) -> Campaign:
    made = cell(work(script, arguments), PLACE, Exclusive.USER)
    assert isinstance(made, Cell)
    state = State(script.parent.parent / "state")
    return Campaign([made], state, Rules(), lambda _: {}, logs=script.parent / "logs", tell=print)


def test_the_folder_of_the_output_is_no_pattern(tmp_path: Path, commands: Path, script: Path) -> None:
    assert campaign(script).step(BUDGET).standings[0].stage is Stage.RUNNING
    words = (tmp_path / "sbatch.calls").read_text().splitlines()
    assert f"--output={tmp_path}/50%%j scripts/logs/a.sh-%A_%a.out" in words


@pytest.mark.parametrize("name", ["a/b", "%j", "a\\b"])
def test_the_output_is_where_it_is_looked_for_whatever_the_job_is_called(
    tmp_path: Path, commands: Path, script: Path, name: str
) -> None:
    script.write_text(script.read_text().replace("-t 10", f"-t 10 -J '{name}'"))
    odd = script.rename(script.with_name(f"{name.replace('/', ' ')}.sh"))
    campaign(odd).step(BUDGET)
    (output,) = (line for line in (tmp_path / "sbatch.calls").read_text().splitlines() if line.startswith("--output="))
    assert re.fullmatch(r".*/logs/[\w.]+-%A_%a\.out", output), output


def accounting(commands: Path, *lines: tuple[str | int, ...]) -> None:
    """Let sacct print these lines."""
    text = "\n".join("|".join(map(str, line)) for line in lines)
    (commands / "sacct").write_text(f"#!/bin/sh\ncat << 'E'\n{text}\nE\n")


def test_an_older_array_that_had_the_same_id_does_not_count(commands: Path, script: Path) -> None:
    under_way, now = campaign(script), int(time.time())
    under_way.step(BUDGET)
    ended = ("0:0", "n1")
    before, own = now - 400 * 86400, now - 300  # by Slurm's clock, which may be another one
    accounting(
        commands,
        ("7_0", 7, "FAILED", before, before, 60, "gres/gpu=1", *ended),
        ("7", 7, "CANCELLED", before, before, 60, "gres/gpu=1", *ended),
        ("7_0", 8, "COMPLETED", own, own, 60, "gres/gpu=1", *ended),
        ("6_1", 7, "FAILED", own, own, 60, "gres/gpu=1", *ended),
    )
    stands = under_way.look().standings[0]
    assert ([run.job_id for run in stands.counted], stands.open, stands.stage) == ([8], 1, Stage.RUNNING)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("-t 10", "-t 100", "changed meanwhile"),
        ("--gpus=1", "--gpus=4", "changed meanwhile"),
        ("-t 10", "-t 10 -a 0-99", "changed meanwhile"),
        ("sleep 1", "sleep 2", ""),
    ],
)
def test_a_script_that_asks_for_more_by_now_is_not_submitted(
    tmp_path: Path, commands: Path, script: Path, before: str, after: str, reason: str
) -> None:
    under_way = campaign(script)
    script.write_text(script.read_text().replace(before, after))
    stands = under_way.step(BUDGET).standings[0]
    assert reason in stands.reason and (stands.stage is Stage.FAILED) == bool(reason)
    assert (tmp_path / "sbatch.calls").exists() == (not reason)


def test_a_script_that_is_gone(tmp_path: Path, commands: Path, script: Path) -> None:
    under_way = campaign(script)
    shutil.rmtree(script.parent)
    stands = under_way.step(BUDGET).standings[0]
    assert (stands.stage, stands.reason) == (Stage.FAILED, f"{script}: No such file or directory")


def test_arguments_that_are_too_long(commands: Path, script: Path) -> None:
    stands = campaign(script, "x" * 200_000).step(BUDGET).standings[0]
    assert (stands.stage, stands.reason) == (Stage.FAILED, "sbatch: Argument list too long")


def test_a_command_that_is_away_for_a_while(commands: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = campaign(script)
    (commands / "sbatch").rename(commands / "gone")
    monkeypatch.setenv("PATH", str(commands))  # the lab has a real sbatch
    view = under_way.step(BUDGET)
    assert (view.trouble, view.standings[0].stage) == (
        "there is no sbatch here; run this where jobs are submitted", Stage.WANTED
    )  # fmt: skip
    (commands / "gone").rename(commands / "sbatch")
    assert under_way.step(BUDGET).standings[0].stage is Stage.RUNNING
