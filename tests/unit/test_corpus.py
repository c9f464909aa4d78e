"""The measured corpus: its programs are well-formed, its table fits them, and what decides about runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.corpus import measure, run, table

from slurmcast.model import Submission
from slurmcast.script import OwnedFiles, read

PROGRAMS = table.programs()
STAT = "cpu  1000 50 300 90000 70 5 25 20 600 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the partitions are one and two CPUs")
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@each_program
def test_program_is_a_folder_with_a_batch_script_for_one_gpu(program: table.Program) -> None:
    assert re.match(r"#! ?/(usr/)?bin/(env )?(ba)?sh( -\w+)?\n", program.script)
    assert re.search(r"^#SBATCH.*\b(gres|gpus|G)\b.*\b1\b", program.script, re.MULTILINE)
    assert "OMP_NUM_THREADS=" not in program.script
    assert '"$@"' in program.script


@each_program
def test_settings_are_six_or_more_that_differ(program: table.Program) -> None:
    assert len(program.settings) >= table.MIN_SETTINGS
    assert len(set(program.settings)) == len(program.settings)


@each_program
def test_script_reader_finds_the_sources_and_the_settings(program: table.Program) -> None:
    for setting in program.settings:
        reading = read(submission(program, setting), OwnedFiles(os.getuid()))
        assert not reading.missing_sources
        assert any(path.endswith(".py") for path in reading.sources)
        assert setting in reading.text.partition("\n")[0]


def submission(program: table.Program, setting: str) -> Submission:
    script = program.script.encode()
    argv = ("job.sh", *shlex.split(setting))
    return Submission(os.getuid(), "user", "job", 0, script, len(script), work_dir=str(program.folder), argv=argv)


@each_program
def test_every_source_compiles(program: table.Program) -> None:
    for path in program.folder.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")


def test_every_committed_run_is_of_a_program_as_it_is_now() -> None:
    known = set(table.works(PROGRAMS))
    assert {run.work for run in table.read_runs()} <= known


def test_rows_carry_what_was_measured() -> None:
    runs = Counter(run.work for run in table.read_runs())
    rows = table.rows()
    assert len(rows) == sum(count > 1 for count in runs.values())
    assert all(row.time_s > 0 and (row.folder / row.argv[0]).read_text() == row.script for row in rows)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A corpus of one program with two settings."""
    folder = tmp_path / "programs" / "toy"
    folder.mkdir(parents=True)
    (folder / "job.sh").write_text('#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py "$@"\n')
    (folder / "train.py").write_text("import sys\nprint('loss', sys.argv[1:])\n")
    (folder / "settings").write_text("--epochs 1\n\n--epochs  2 --name 'a b'\n")
    return tmp_path


def test_rows_of_a_small_corpus(small: Path) -> None:
    (program,) = table.programs(small)
    assert program.settings == ("--epochs 1", "--epochs 2 --name 'a b'")
    lines = [
        (program.settings[1], "one", 4.0, program.digest),
        (program.settings[1], "one", 5.0, program.digest),
        (program.settings[1], "one", 4.2, program.digest),
        (program.settings[1], "two", 2.0, program.digest),
        (program.settings[1], "two", 3.0, program.digest),
        (program.settings[0], "one", 1.0, program.digest),
        (program.settings[0], "two", 1.0, "of yesterday"),
        (program.settings[0], "two", 1.0, "of yesterday"),
    ]
    table_text = "program,setting,partition,time_s,cpu_s,foreign_share,at,digest\n"
    table_text += "".join(f"toy,{s},{p},{t},1,0,2026-01-01,{d}\n" for s, p, t, d in lines)
    (small / "measured.csv").write_text(table_text)
    one, two = table.rows(small)
    assert (one.partition, one.accepted, one.times_s) == ("one", True, (4.0, 5.0, 4.2))
    assert one.time_s == pytest.approx(4.1)
    assert (two.partition, two.accepted, two.time_s) == ("two", False, 2.5)
    assert one.argv == ("job.sh", "--epochs", "2", "--name", "a b")


def test_what_is_left_of_a_program_that_has_gone_is_none(small: Path) -> None:
    (small / "programs" / "gone" / "__pycache__").mkdir(parents=True)
    assert [program.name for program in table.programs(small)] == ["toy"]


def test_the_table_has_settings_that_ran_twice_everywhere_of_programs_with_six_of_them(small: Path) -> None:
    (small / "programs" / "toy" / "settings").write_text("".join(f"--epochs {n}\n" for n in range(7)))
    works = list(table.works(table.programs(small)))
    lines = [f"{w.program},{w.setting},{w.partition},2.0,1,0,2026-01-01,{w.digest}\n" for w in works for _ in range(2)]
    header = "program,setting,partition,time_s,cpu_s,foreign_share,at,digest\n"
    for count, rows in ((28, 14), (27, 12), (26, 12), (25, 0)):
        (small / "measured.csv").write_text(header + "".join(lines[:count]))
        assert len(table.measured_everywhere(small)) == rows


@pytest.mark.parametrize("name", ["job.sh", "train.py", "settings"])
def test_digest_is_of_script_and_sources(small: Path, name: str) -> None:
    (before,) = table.programs(small)
    with (small / "programs" / "toy" / name).open("a") as file:
        file.write("# --epochs 3\n")
    (after,) = table.programs(small)
    assert (before.digest == after.digest) == (name == "settings")


@pytest.mark.parametrize(
    ("times", "accepted", "finished"),
    [
        ([1.0], False, False),
        ([1.0, 1.2], False, False),
        ([1.0, 1.09], True, True),
        ([1.0, 1.2, 1.25], True, True),
        ([1.0, 1.2, 1.5, 2.0], False, False),
        ([1.0, 1.2, 1.5, 2.0, 3.0], False, True),
    ],
)
def test_acceptance(times: list[float], accepted: bool, finished: bool) -> None:
    assert table.accepted(times) == accepted
    assert measure.finished(times) == finished


def test_difference_is_relative_to_the_mean() -> None:
    assert table.difference(9, 11) == pytest.approx(0.2)
    assert table.closest([5, 1, 2, 2.1]) == (2, 2.1)


def test_a_setting_runs_on_its_partitions_in_turn_settings_in_an_order_that_the_seed_decides(
    small: Path,
) -> None:
    settings = small / "programs" / "toy" / "settings"
    settings.write_text("".join(f"--epochs {n}\n" for n in range(9)))
    (program,) = table.programs(small)
    first, again, other = (measure.in_turn(program, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first, key=lambda work: work.setting) == sorted(table.works([program]), key=lambda work: work.setting)
    assert [work.partition for work in first] == [*table.PARTITIONS] * 9
    assert [work.setting for work in first[::2]] == [work.setting for work in first[1::2]]


@two_cpus
def test_second_runs_come_in_the_reverse_order_of_the_first(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MAX_FOREIGN", 100.0)
    monkeypatch.setattr(table, "AGREEMENT", 9.0)  # any two runs agree
    measure.measure(small, (), seed=1, lock=None)
    order = [run.work for run in table.read_runs(small)]
    (program,) = table.programs(small)
    assert order == [*(turn := measure.in_turn(program, 1)), *reversed(turn)]


def test_busy_time_counts_stolen_time_but_neither_waiting_nor_guests() -> None:
    assert run.busy_s(STAT, 100) == pytest.approx((1000 + 50 + 300 + 5 + 25 + 20) / 100)


@pytest.mark.parametrize(("busy", "own", "wall", "share"), [(2.2, 2.0, 4.0, 0.05), (1.99, 2.0, 4.0, 0.0)])
def test_foreign_share(busy: float, own: float, wall: float, share: float) -> None:
    assert run.foreign_share(busy, own, wall) == pytest.approx(share)


def test_a_run_measures_the_program_in_the_environment_of_a_job(small: Path) -> None:
    (small / "programs" / "toy" / "train.py").write_text(
        "import os, sys, time\nassert sys.argv[1:] == ['--name', 'a b']\nassert os.environ['OMP_NUM_THREADS'] == '1'\n"
        "assert len(os.sched_getaffinity(0)) == 1\nt = time.process_time()\n"
        "while time.process_time() < t + 0.3: pass\nprint('loss')\n"
    )
    reading = run.run_once(small / "programs" / "toy", "--name 'a b'", 1)
    assert reading.time_s >= reading.cpu_s * 0.9
    assert reading.cpu_s >= 0.3


@pytest.mark.parametrize(
    ("source", "message"), [("raise SystemExit('no data')", "ended with 1: no data"), ("pass", "printed nothing")]
)
def test_a_run_that_fails_says_why(small: Path, source: str, message: str) -> None:
    (small / "programs" / "toy" / "train.py").write_text(source)
    with pytest.raises(run.Failed, match=message):
        run.run_once(small / "programs" / "toy", "", 1)


def test_a_run_that_takes_too_long_is_ended_with_all_its_processes(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    (small / "programs" / "toy" / "train.py").write_text(
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)\n"
    )
    monkeypatch.setattr(run, "RUN_LIMIT_S", 2.0)
    with pytest.raises(run.Failed, match="took more than"):
        run.run_once(small / "programs" / "toy", "", 1)
    gone = time.monotonic() + 10  # a killed grandchild stays until init has buried it
    while Path(f"/proc/{pid.read_text()}").exists():
        assert time.monotonic() < gone
        time.sleep(0.01)


def test_exclusive_waits_for_the_lock_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    monkeypatch.setattr(run, "LOCK_WAIT_S", 0.1)
    with run.exclusive(None) as free:
        assert free
    with run.exclusive(str(lock)) as held:
        assert held
        assert subprocess.run(["flock", "--nonblock", str(lock), "true"], check=False).returncode
        with run.exclusive(str(lock)) as second:
            assert not second
    with run.exclusive(str(lock)) as again:
        assert again


def of(program: str, runs: list[table.Run]) -> list[table.Run]:
    return [run for run in runs if run.work.program == program]


@two_cpus
def test_measuring_resumes_and_forgets_what_has_changed(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "MAX_FOREIGN", 100.0)
    monkeypatch.setattr(measure, "RESTLESS", 2.0)
    first = measure.measure(small, (), seed=1, lock=None)
    assert (first["programs"], first["works"]) == (1, 4)
    assert measure.measure(small, (), seed=1, lock=None) == first
    assert "1 programs, 0 to be measured" in capsys.readouterr().out
    (small / "programs" / "toy" / "train.py").write_text("print('another loss')\n")
    assert measure.measure(small, (), seed=1, lock=None)["works"] == 4
    assert {run.work for run in table.read_runs(small)} == set(table.works(table.programs(small)))
    assert "1 programs, 1 to be measured" in capsys.readouterr().out


@two_cpus
def test_a_program_with_a_new_setting_is_measured_anew_as_a_whole_and_no_other(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MAX_FOREIGN", 100.0)
    monkeypatch.setattr(measure, "RESTLESS", 2.0)
    shutil.copytree(small / "programs" / "toy", small / "programs" / "other")
    measure.measure(small, (), seed=1, lock=None)
    before = table.read_runs(small)
    with (small / "programs" / "toy" / "settings").open("a") as settings:
        settings.write("--epochs 3\n")
    assert measure.measure(small, (), seed=1, lock=None)["works"] == 4 + 6
    assert of("other", table.read_runs(small)) == of("other", before)
    assert of("toy", table.read_runs(small)) != of("toy", before)


@pytest.mark.parametrize(
    ("times", "again"),
    [
        ([(1.0, 1.01)] * 4, False),
        ([(1.0, 1.01), (1.0, 1.08), (1.0, 1.09), (1.2, 1.1)], True),
        ([(1.0, 1.0, 9.0)] * 4, False),
    ],
)
def test_a_program_is_restless_by_the_median_of_its_first_two_runs(
    small: Path, times: list[tuple[float, ...]], again: bool
) -> None:
    (program,) = table.programs(small)
    assert not measure.restless(program, {})
    assert measure.restless(program, dict(zip(table.works([program]), times, strict=True))) is again


@two_cpus
def test_a_restless_program_is_measured_anew_and_no_other(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MAX_FOREIGN", 100.0)
    shutil.copytree(small / "programs" / "toy", small / "programs" / "other")
    monkeypatch.setattr(measure, "restless", lambda program, _: program.name == "toy")
    assert measure.measure(small, (), seed=1, lock=None)["restless"] == ["toy"]
    before = table.read_runs(small)
    assert measure.measure(small, (), seed=1, lock=None)["works"] == 4 + 4
    assert of("other", table.read_runs(small)) == of("other", before)
    assert of("toy", table.read_runs(small)) != of("toy", before)


@two_cpus
def test_a_restless_program_that_cannot_be_measured_again_keeps_its_runs(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MAX_FOREIGN", 100.0), ("TRIES", 1), ("PAUSE_S", 0.0), ("RESTLESS", -1.0)):
        monkeypatch.setattr(measure, name, value)
    measure.measure(small, (), seed=1, lock=None)
    before = table.read_runs(small)
    monkeypatch.setattr(measure, "MAX_FOREIGN", -1.0)
    assert measure.measure(small, (), seed=1, lock=None)["restless"] == ["toy"]
    assert table.read_runs(small) == before


@two_cpus
def test_a_disturbed_run_is_not_recorded(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FOREIGN", -1.0), ("TRIES", 2), ("PAUSE_S", 0.0)):
        monkeypatch.setattr(measure, name, value)
    assert measure.measure(small, (), seed=1, lock=None) == {"works": 0, "missing": 4, "restless": []}
    assert not (small / "measured.csv").exists()


@two_cpus
def test_a_program_that_fails_costs_only_its_own_works(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MAX_FOREIGN", 100.0)
    monkeypatch.setattr(measure, "RESTLESS", 2.0)
    shutil.copytree(small / "programs" / "toy", small / "programs" / "broken")
    (small / "programs" / "broken" / "train.py").write_text("raise SystemExit('no data')\n")
    found = measure.measure(small, (), seed=1, lock=None)
    assert (found["programs"], found["works"], found["missing"]) == (1, 4, 4)


@two_cpus
@pytest.mark.parametrize(
    ("there", "told"),
    [
        (b'{"cpu": "another"}', "another machine"),
        (b'{"cpu": "an', r"machine\.json: .*; restore it"),
        (b"\xff", r"machine\.json: .*; restore it"),
        (100_000 * b"[", r"machine\.json: .*; restore it"),
    ],
    ids=["another", "cut", "bytes", "deep"],
)
def test_runs_of_two_machines_are_not_mixed(small: Path, there: bytes, told: str) -> None:
    (small / "machine.json").write_bytes(there)
    with pytest.raises(SystemExit, match=told):
        measure.measure(small, (), seed=1, lock=None)
    assert (small / "machine.json").read_bytes() == there
