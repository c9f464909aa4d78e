"""The file from which a killed call goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.codec import to_json
from slurmcast.label import state
from slurmcast.label.state import State, StateError
from slurmcast.label.words import Batch, Budget, Cost, Run, spent

BATCH = Batch("b1", 5.0, "key", "/x/a.sh", ("1", "ü"), "a100", 2, 1, 600, 200.0, None)
RUN = Run("b1", 7, 0, 8, 1000, "COMPLETED", 10.0, 1, 6.0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PATIENCE_S", 0.2)


def reopened(of: State) -> State:
    of.file.close()
    return State(of.path)


def test_all_that_was_written_is_there_again(tmp_path: Path) -> None:
    made = State(tmp_path / "state")
    made.intend(BATCH)
    assert reopened(made).batches == {"b1": BATCH}
    made = State(tmp_path / "other")
    made.intend(BATCH)
    made.submitted(BATCH, 7)
    assert made.open_tasks(made.batches["b1"]) == [0, 1]
    made.ended([RUN])
    made.ended([replace(RUN, energy_kwh=0.25), RUN])  # the last word counts
    made.ended([replace(RUN, energy_kwh=0.25)])
    made.ended([replace(RUN, task=1, final=False)])
    again = reopened(made)
    assert again.batches == {"b1": replace(BATCH, job_id=7)}
    assert again.runs["b1", 0, 1000].energy_kwh == 0.25
    assert again.open_tasks(again.batches["b1"]) == [1]  # queued again: it isn't over


def test_the_last_budget_is_there_again(tmp_path: Path) -> None:
    made = State(tmp_path / "state")
    assert made.budget == Budget()
    made.allow(Budget(0.5))
    made.allow(Budget(None, 2.0))
    assert reopened(made).budget == Budget(None, 2.0)


def test_what_never_came_to_slurm_is_forgotten_and_what_was_refused_is_over(tmp_path: Path) -> None:
    made = State(tmp_path / "state")
    made.intend(BATCH)
    made.void(BATCH)
    made.intend(replace(BATCH, id="b2"))
    made.refused(made.batches["b2"], "Invalid account")
    again = reopened(made)
    assert list(again.batches) == ["b2"] and again.open_tasks(again.batches["b2"]) == []


def test_a_run_that_is_known_already_is_not_written_again(tmp_path: Path) -> None:
    made = State(tmp_path / "state")
    made.ended([RUN])
    size = made.path.stat().st_size
    made.ended([RUN])
    assert made.path.stat().st_size == size


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_is_passed_over(tmp_path: Path, cut: int) -> None:
    made = State(tmp_path / "state")
    made.intend(BATCH)
    made.ended([RUN])
    made.file.close()
    os.truncate(made.path, made.path.stat().st_size - cut)
    again = State(made.path)
    assert again.batches == {"b1": BATCH} and (cut == 1) == bool(again.runs)
    again.submitted(BATCH, 7)
    assert reopened(again).batches["b1"].job_id == 7


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_disk_that_ends_within_a_line_is_an_error(tmp_path: Path, room: int) -> None:
    made = State(tmp_path / "state")
    made.intend(BATCH)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (made.path.stat().st_size + room, hard))
    try:
        with pytest.raises(OSError) as error:
            made.submitted(BATCH, 7)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.filename == str(made.path)
    again = reopened(made)
    assert again.batches == {"b1": BATCH}
    again.submitted(BATCH, 7)
    assert reopened(again).batches["b1"].job_id == 7


def test_a_run_whose_array_is_lost_is_still_paid_for(tmp_path: Path) -> None:
    made = State(tmp_path / "state")
    made.ended([RUN])
    again = reopened(made)
    assert spent(list(again.runs.values()), again.batches) == Cost(10 / 3600, None)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "-10", "1" + 400 * "0"])
@pytest.mark.parametrize("field", ["elapsed_s", "gpus", "energy_kwh"])
def test_a_line_with_a_number_beyond_reason_is_passed_over(tmp_path: Path, field: str, number: str) -> None:
    path, line = tmp_path / "state", json.dumps({"run": to_json(replace(RUN, **{field: 77}))})
    made = State(path)
    made.intend(BATCH)
    made.file.write(line.replace("77", number).encode() + b"\n")
    assert reopened(made).runs == {}
    made.file.close()


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "hello", "hello\nworld\n", "{}\n{}\n", '{"batch": 1}\n{}\n', "[]\n[]\n", '"void"\n1\n', "\n"],
)
def test_another_kind_of_file_is_refused_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(StateError, match="not written by slurmcast label"):
        State(path)
    assert path.read_text() == text


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file or directory; give another file by --state"):
        State(tmp_path / "missing" / "state")


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device(device: str) -> None:
    with pytest.raises(StateError, match="not a plain file"):
        State(Path(device))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a file of another user")
def test_nobody_is_told_by_another_user_which_jobs_are_his(tmp_path: Path) -> None:
    State(tmp_path / "state").submitted(BATCH, 7)
    os.chown(tmp_path / "state", 4711, -1)
    with pytest.raises(StateError, match="another user's; give another file by --state"):
        State(tmp_path / "state")


HOLD = """
import subprocess, sys
from pathlib import Path
from slurmcast.label.state import State
state = State(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], pass_fds=[state.file.fileno()])
print(child.pid, flush=True)
child.wait()
"""


def test_one_call_at_a_time_and_none_while_an_sbatch_of_a_killed_one_still_tries(tmp_path: Path) -> None:
    path = tmp_path / "state"
    call = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert call.stdout
    child = int(call.stdout.readline())
    try:
        with pytest.raises(StateError, match="another slurmcast label uses it"):
            State(path)
        call.kill()
        call.wait()
        with pytest.raises(StateError, match="another slurmcast label uses it"):
            State(path)
    finally:
        os.kill(child, signal.SIGKILL)
        call.stdout.close()
    State(path)
