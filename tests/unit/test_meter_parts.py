"""The meter's parts: prolog and epilog never fail, markers, what a killed meter finds again, cards that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmcast.config import ConfigError, parse
from slurmcast.meter import service
from slurmcast.meter.markers import parse as parse_marker
from slurmcast.meter.meter import Suspect
from tests.fake_nvml.script import GPU_IS_LOST
from tests.unit.meter_world import EPOCH, SLURM, Node

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": "100", "SLURM_JOB_GPUS": "0"}
FAULTS: dict[str, Callable[[Path], object]] = {
    "no folder": lambda folder: folder.rmdir(),
    "a file in the folder's place": lambda folder: (folder.rmdir(), folder.write_text("")),
    "a folder in the marker's place": lambda folder: [(folder / f"7.100.{end}").mkdir() for end in ("begin", "end")],
    "a full disk": lambda folder: [(folder / f"7.100.{end}").symlink_to("/dev/full") for end in ("begin", "end")],
    "nothing": lambda folder: None,
}


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "environment", [JOB, {}, {"CUDA_VISIBLE_DEVICES": "$(exit 3)'\"\n%s\\"}], ids=["job", "", "odd"]
)
def test_prolog_and_epilog_always_succeed(shell: str, fault: str, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "markers"
    folder.mkdir()
    FAULTS[fault](folder)
    for what in ("prolog", "epilog"):
        command = [str(shutil.which(shell)), str(SLURM / f"{what}.d/50-slurmcast-meter.sh")]
        facts = environment | {"SLURMCAST_METER_MARKERS": str(folder)}
        done = subprocess.run(command, env=facts, capture_output=True, check=False, timeout=10)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if fault == "nothing" and environment is JOB:
        assert sorted(path.name for path in folder.iterdir()) == ["7.100.begin", "7.100.end"]


def test_jobs_without_gpus_leave_no_marker(tmp_path: Path) -> None:
    environment = {**JOB, "SLURM_JOB_GPUS": "", "SLURMCAST_METER_MARKERS": str(tmp_path)}
    subprocess.run([SLURM / "prolog.d/50-slurmcast-meter.sh"], env=environment, check=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "gpus", "nodes", "mps"),
    [
        ("SLURM_JOB_GPUS=0,3\nCUDA_VISIBLE_DEVICES=0,3\nSLURM_JOB_NUM_NODES=2", ("0", "3"), 2, False),
        ("SLURM_JOB_GPUS=0\nCUDA_VISIBLE_DEVICES=GPU-a,GPU-b", ("GPU-a", "GPU-b"), 1, False),
        ("SLURM_JOB_GPUS=0\nCUDA_VISIBLE_DEVICES=MIG-a", ("MIG-a",), 1, False),
        ("SLURM_JOB_GPUS=1\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50", ("1",), 1, True),
        ("SLURM_JOB_GPUS=1\nSLURM_JOB_NUM_NODES=²", ("1",), 1, False),
    ],
)
def test_markers(content: str, gpus: tuple[str, ...], nodes: int, mps: bool) -> None:
    begin = parse_marker("7.1000.begin", f"{content}\ncomplete\n".encode(), 1000.5)
    assert begin is not None
    assert (begin.job_id, begin.start_time, begin.gpus, begin.nodes, begin.mps) == (7, 1000, gpus, nodes, mps)
    assert parse_marker("7.1000.begin", content.encode(), 1000.5) is None, "it is still being written"


def test_a_marker_without_a_start_time_has_its_own() -> None:
    begin = parse_marker("7.0.begin", b"SLURM_JOB_GPUS=0\ncomplete\n", 1000.5)
    assert begin is not None and (begin.key, begin.start_time) == ("7.0", 1000)


def test_strange_files_among_the_markers(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.markers / "notes.txt").write_text("x")
    for name, content in (("1.5.begin", b"\xff\x00"), ("2.5.begin", b"x" * 99999), ("3.5.end", b"complete\n")):
        (node.markers / name).write_bytes(content)
        os.utime(node.markers / name, (EPOCH, EPOCH))
    node.begin(7)
    node.until(100)
    node.end(7)
    assert node.record().energy_j == pytest.approx(10000)
    assert [path.name for path in node.markers.iterdir()] == ["notes.txt"], (
        "what means nothing is removed after a while"
    )


def test_a_meter_killed_while_a_run_ends_reports_it_once_and_right(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.begin(7)
    node.until(50)
    node.awake = False
    node.end(7)
    before = {path: path.read_bytes() for path in [*node.markers.iterdir(), tmp_path / "state/runs.json"]}
    node.until(52)
    record = node.record()
    # Killed after the record was written, before the rest was: all of that is as it was.
    for path, content in before.items():
        path.write_bytes(content)
    node.told.now_s = 500
    node.boot()
    node.until(503)
    assert node.record() == record
    assert not list(node.markers.iterdir()) and not node.meter.runs


def test_a_state_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.begin(7)
    (tmp_path / "state/runs.json").write_text('{"runs": 7')
    node.boot()
    node.until(100)
    node.end(7)
    assert node.record().energy_j == pytest.approx(10000), "the marker is still there"
    assert (tmp_path / "state/runs.unreadable.json").exists()


def test_one_broken_card_hides_no_other(tmp_path: Path) -> None:
    node = Node(tmp_path, gpus=3)
    node.gpus[0].fail(0, code=GPU_IS_LOST)
    node.begin(7, "2")
    node.begin(8, "0")
    node.until(100)
    node.end(7)
    node.end(8)
    seven, eight = node.records()
    assert seven.energy_j == pytest.approx(10000)
    assert eight.energy_j is None and (eight.gpus, eight.used) == (1, ())


@pytest.mark.parametrize(("gpus", "count"), [("0", "1 GPU"), ("0,5", "2 GPUs")])
def test_the_log_names_gpus(tmp_path: Path, caplog: pytest.LogCaptureFixture, gpus: str, count: str) -> None:
    caplog.set_level("INFO")
    Node(tmp_path).play(f"begin 7 {gpus}", "3")
    assert f"job 7 begins on {count}" in caplog.messages
    assert ("GPU 5 can't be found: no GPU 5 is known to NVML" in caplog.messages) == ("5" in gpus)


def test_a_driver_that_comes_late_is_a_gap(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.told.unloaded_s = (0, 40)
    node.begin(7)
    node.until(100)
    node.end(7)
    assert node.record().energy_j is None
    assert 40 <= node.record().used[0].gap_s < 42


def test_nvml_is_let_go_while_no_job_runs(tmp_path: Path) -> None:
    """An open library keeps the driver from being unloaded and cards from being reset."""
    node = Node(tmp_path)
    node.begin(7)
    node.until(20)
    node.end(7)
    calls = node.told.calls
    node.until(40)
    assert node.told.calls == calls
    node.told.unloaded_s = (41, 43)  # now a new driver can be loaded
    node.until(45)
    node.begin(8)
    node.until(60)
    node.end(8)
    assert node.records()[1].energy_j == pytest.approx(1500)


def test_a_card_that_does_not_know_something_is_asked_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.gpus[0].counts = 0
    node.begin(7)
    node.until(10)
    calls = node.told.calls
    node.meter.step()
    assert node.told.calls - calls == 3


def test_slurm_that_does_not_answer_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert service.running_here([Suspect("7.1", 7, "n1")]) is None
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\n[ "$*" = "--all --noheader --nodelist=n1 --format=%A" ] && printf "8\\n7\\n"\n')
    squeue.chmod(0o755)
    assert service.running_here([Suspect("7.1", 7, "n1")]) == {7, 8}


def test_a_meter_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = tmp_path / "slurmcast.toml"
    config.write_text(f'[meter]\nmarkers = "{tmp_path}/markers"\nstate_dir = "{tmp_path}/file/state"\n')
    command = [sys.executable, "-m", "slurmcast.cli", "--config", str(config), "meter"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "can't run" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"period_s": 0.01}, "period_s"), ({"max_gap_s": 0.5}, "max_gap_s"), ({"period_s": 9.0}, "at least twice")],
)
def test_settings_that_make_no_sense(settings: dict[str, float], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(json.loads(json.dumps({"meter": settings})))
