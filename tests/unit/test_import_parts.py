"""The pure parts of the import: what was submitted, which records are runs, how far to look, where to go on."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.cluster.accounting import Record
from slurmcast.imports import mark, show
from slurmcast.imports.mark import Mark
from slurmcast.imports.run import Count, judged
from slurmcast.imports.submission import identity, submission
from slurmcast.imports.windows import LEAST_S, MOST_S, WANTED_ROWS, Windows
from slurmcast.model import Outcome
from slurmcast.script.reader import read

SCRIPT = b"#!/bin/bash\n#SBATCH --gres=gpu:2 -t 30 --array=0-3\npython train.py\n"
RECORD = Record(
    job_id=7, label="7", name="train.sh", uid=1000, user="alice", account="research", qos="normal", partition="a100",
    state="COMPLETED", submit_time=100, start_time=110, end_time=170, elapsed_s=60, tres="cpu=1,gres/gpu=1", nodes=1,
    features="", comment="", submit_line="sbatch train.sh", work_dir="/home/alice",
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sbatch train.sh", {"time_limit_s": 1800, "gpus_total": 2}),
        ("sbatch -t 1:00:00 train.sh -t 5", {"time_limit_s": 3600, "gpus_total": 2}),
        ("sbatch -t UNLIMITED train.sh", {"time_limit_s": None}),
        ("sbatch --gpus=4 --gres= train.sh", {"gpus_total": 4}),
        ("sbatch -N 2 -n 8 -c 3 --mem=2G train.sh", {"gpus_total": 4}),
        ("sbatch -p a100,a6000 train.sh", {"partitions": ("a100", "a6000")}),
    ],
)
def test_the_line_is_read_over_the_directives(line: str, expected: dict[str, Any]) -> None:
    reading = read(submission(replace(RECORD, submit_line=line), SCRIPT, b""))
    assert {name: getattr(reading, name) for name in expected} == expected


def test_what_the_hook_would_have_passed_on() -> None:
    record = replace(RECORD, features="a100&nvlink", submit_line="sbatch -N 2-4 --ntasks-per-gpu=2 --gpus=2 train.sh x")
    found = submission(record, SCRIPT, b"EPOCHS=3\nSECRET=x\n")
    assert found.environment == {"EPOCHS": "3"}
    assert (found.argv, found.array, found.work_dir) == (("train.sh", "x"), "0-3", "/home/alice")
    wanted = {"min_nodes": "2", "num_tasks": "4", "ntasks_per_gpu": "2", "features": "a100&nvlink", "time_limit": "30"}
    assert wanted.items() <= found.request.items()


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"job_id": 8, "submit_time": 999, "start_time": 1000, "state": "FAILED", "nodes": 4}, True),
        ({"name": "other", "submit_line": "sbatch -J other train.sh"}, False),
        ({"uid": 1001}, False),
        ({"submit_line": "sbatch train.sh --seed 1"}, False),
        ({"work_dir": "/home/alice/x"}, False),
    ],
)
def test_the_same_work_has_one_identity(changes: dict[str, Any], same: bool) -> None:
    one, other = submission(RECORD, SCRIPT, b""), submission(replace(RECORD, **changes), SCRIPT, b"")
    assert (identity(one) == identity(other)) == same
    assert identity(one) != identity(submission(RECORD, SCRIPT + b"\n", b""))
    assert identity(one) != identity(submission(RECORD, SCRIPT, b"EPOCHS=3"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"end_time": 110, "elapsed_s": 0}, None),
        ({"partition": "cpu"}, Count.ELSEWHERE),
        ({"start_time": 0}, Count.NEVER_RAN),
        ({"start_time": 171}, Count.UNSOUND),
        ({"tres": "cpu=4,node=1"}, Count.NO_GPUS),
        ({"tres": ""}, Count.NO_GPUS),
    ],
)
def test_which_records_are_runs(changes: dict[str, Any], expected: Count | None) -> None:
    found = judged(replace(RECORD, **changes), {"a100"})
    assert found == expected or (expected is None and isinstance(found, Outcome))


@pytest.mark.parametrize(
    ("length_s", "rows", "expected"),
    [
        (1000, WANTED_ROWS, 1000),
        (1000, 10 * WANTED_ROWS, 100),
        (1000, WANTED_ROWS // 2, 2000),
        (1000, 1, 4000),
        (1000, 0, 4000),
        (1000, 10**9, LEAST_S),
        (MOST_S, 0, MOST_S),
    ],
)
def test_windows_follow_the_number_of_records(length_s: int, rows: int, expected: int) -> None:
    assert Windows(length_s).after(rows) == Windows(expected)


def test_a_refused_window_is_halved_to_an_end() -> None:
    window, tries = Windows(MOST_S), 0
    while (shorter := window.halved()) is not None:
        assert shorter.length_s < window.length_s
        window, tries = shorter, tries + 1
    assert window.length_s == LEAST_S
    assert tries < 30


@pytest.mark.parametrize(
    ("since", "expected"),
    [(None, Mark(100, 200, {"runs": 3})), (100, Mark(100, 200, {"runs": 3})), (150, Mark(100, 200, {"runs": 3})),
     (200, Mark(100, 200, {"runs": 3})), (50, Mark(50, 50))],
)  # fmt: skip
def test_where_an_import_goes_on(since: int | None, expected: Mark) -> None:
    assert Mark(100, 200, {"runs": 3}).resume(since) == expected


def test_marks_survive(tmp_path: Path) -> None:
    file = tmp_path / "import.json"
    assert mark.load(file) is None
    done = Mark(100, 200, {"runs": 3}).advanced(300, {"runs": 2, "completed": 1})
    mark.save(file, done)
    assert mark.load(file) == done == Mark(100, 300, {"completed": 1, "runs": 5})
    file.write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        mark.load(file)


@pytest.mark.parametrize(
    ("words", "left", "status", "told"),
    [
        (["--since", "0001-01-01"], "", 2, "'0001-01-01' is no time: must be like 2026-11-01, 2026-"),
        (["--since", "7 days"], "", 2, "'7 days' is no time"),
        (["--since", "7d", "--until", "8d"], "", 2, "must be in the past, and before --until"),
        (["--since", "1h", "--until", "2100-01-01T08:00"], "", 1, "slurmcastd doesn't run here"),
        (["--since", "2h"], '{"since": 1, "until": 1738000000}', 2, "between that and --since would never be imp"),
        (["--since", "9999-12-30"], "", 2, "must be in the past"),
        (["--until", "1960-01-01", "--since", "1950-01-01"], "", 2, "must be in the past"),
        ([], "{", 1, "--restart begins anew"),
        ([], "[" * 100_000, 1, "--restart begins anew"),
        ([], '{"since": 1, "until": 4000000000}', 1, "aren't in the past; was the clock wrong? --restart begins anew"),
        ([], '{"since": 1, "until": 99999999999999999999}', 1, "was the clock wrong?"),
        ([], '{"since": -99999999999999999, "until": 1}', 1, "was the clock wrong?"),
    ],
)
def test_times_that_no_import_can_have(words: list[str], left: str, status: int, told: str, tmp_path: Path) -> None:
    config, user = tmp_path / "slurmcast.toml", pwd.getpwuid(os.getuid()).pw_name
    config.write_text(
        f'[paths]\nrun_dir = "{tmp_path}"\nagent_state_dir = "{tmp_path}"\n[daemon]\nagent_user = "{user}"\n'
    )
    if left:
        (tmp_path / "import.json").write_text(left)
    result = CliRunner().invoke(main, ["--config", str(config), "import", *words])
    assert (result.exit_code, told in result.stderr.splitlines()[-1]) == (status, True), result.stderr


def test_without_a_terminal_progress_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with show.progress(0, 300) as told:
        told(Mark(0, 100, {"records": 10, "runs": 4}))
        told(Mark(0, 300, {"records": 12345, "runs": 6789}))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1  # the last, and one every ten seconds
    assert lines[0].endswith("12,345 records, 6,789 runs kept")


def test_what_an_import_answers(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"records": 30, "runs": 20, "completed": 15, "with_script": 10, "other_partition": 10}
    answer = show.summary(Mark(0, 100, {"records": 10}), Mark(0, 300, counts), new=12, spent_s=2.0, unencoded=3)
    assert answer["this_time"] == {"records": 20, "new_runs": 12, "seconds": 2.0, "records_per_s": 10.0}
    assert {name: answer[name] for name in counts} == counts
    assert answer["never_ran"] == 0
    show.table(answer)
    text = capsys.readouterr().out
    assert "10  of these with the script" in text
    assert "20 records in 2 s, 12 new runs" in text
    assert "3 scripts are still to be encoded" in text
    show.table(answer | {"unencoded": 0})
    assert "encoded" not in capsys.readouterr().out
