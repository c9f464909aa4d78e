"""Which submission a job was: by what both sides know, and by the script that Slurm keeps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, script, submission


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        unit.start()
        yield unit


def test_same_script_other_arguments_are_told_apart(daemon: Daemon) -> None:
    for n, epochs in enumerate((b"1", b"90")):
        text = b"#SBATCH --gres=gpu:1\npython train.py $@\n"
        daemon.spool(f"{n}.job", submission(n, argv=b"/x/train.sh\0--epochs\0" + epochs + b"\0", script=text))
    daemon.eventually(lambda: daemon.settled(2))
    found = daemon.look(*(record(j, submit_line=f"sbatch train.sh --epochs {e}") for j, e in ((8, "90"), (7, "1"))))
    assert not any(entry["script_wanted"] for entry in found)
    assert (daemon.numbers(7)["epochs"], daemon.numbers(8)["epochs"]) == (1, 90)
    keys = {daemon.ask("GET", f"/v1/explain/{job_id}")["key"] for job_id in (7, 8)}
    assert len(keys) == 2


def test_submissions_of_one_second_are_told_apart_by_the_script(daemon: Daemon) -> None:
    for n in (1, 2):
        daemon.spool(f"{n}.job", submission(n))
    daemon.eventually(lambda: daemon.settled(2))
    jobs = record(7), record(8)
    first = daemon.look(*jobs)
    assert all(entry["final"] and entry["script_wanted"] for entry in first)
    assert (daemon.numbers(7)["epochs"], daemon.numbers(8)["epochs"]) == (1, 2)
    daemon.hand_over(jobs[0], script(2))  # they had overtaken each other
    assert [entry["script_wanted"] for entry in daemon.look(*jobs)] == [False, True]
    daemon.hand_over(jobs[1], script(1))
    assert not any(entry["script_wanted"] for entry in daemon.look(*jobs))
    assert (daemon.numbers(7)["epochs"], daemon.numbers(8)["epochs"]) == (2, 1)
    assert daemon.ask("GET", "/v1/health")["submissions"] == 2


def test_one_spool_file_of_two_jobs_goes_to_the_one_whose_script_it_is(daemon: Daemon) -> None:
    daemon.spool("1.job", submission(2))
    daemon.eventually(lambda: daemon.settled(1))
    jobs = record(7), record(8)
    assert all(entry["script_wanted"] and "estimates" not in entry for entry in daemon.look(*jobs))
    for job, n in zip(jobs, (1, 2), strict=True):
        daemon.hand_over(job, script(n))
    daemon.eventually(lambda: all(entry.get("final") for entry in daemon.look(*jobs)))
    assert (daemon.numbers(7)["epochs"], daemon.numbers(8)["epochs"]) == (1, 2)
    assert daemon.ask("GET", "/v1/health")["submissions"] == 2


def test_a_job_without_a_spool_file_is_read_back(daemon: Daemon) -> None:
    job = record(7, submit_line="sbatch -p a100 --gres=gpu:1 train.sh --epochs 5")
    (known,) = daemon.look(job)
    assert known["script_wanted"] and "estimates" not in known
    daemon.hand_over(job, script(5) + b"# caf\xe9\n")
    daemon.eventually(lambda: daemon.look(job)[0].get("final"))
    (known,) = daemon.look(job)
    assert known["partition_named"] and known["allowed_partitions"] == ["a100"] and known["grace_until"] == 0
    assert not known["script_wanted"]


def test_scripts_are_asked_for_only_where_there_is_one_and_after_a_while(daemon: Daemon) -> None:
    assert not daemon.look(record(7, batch=False))[0]["script_wanted"]
    daemon.end()
    daemon.settings = "readback_after_s = 2000000000"
    daemon.start()
    assert not daemon.look(record(7))[0]["script_wanted"]


def test_a_cut_script_is_completed_and_keeps_what_the_hook_knew(daemon: Daemon) -> None:
    whole = b"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\n" + b"#\n" * 99 + b"python train.py --epochs 44\n"
    fields = {"script": whole[:60], "script_size": b"%d" % len(whole), "environment": b"BATCH_SIZE=8\0"}
    grace = SUBMITTED + 8
    daemon.spool("1.job", submission(0, **fields, begin_time=b"%d" % grace))
    daemon.eventually(lambda: daemon.settled(1))
    job = record(7, begin_time=grace)
    (known,) = daemon.look(job)
    assert known["script_wanted"] and known["grace_until"] == grace
    assert "epochs" not in daemon.numbers(7)
    daemon.hand_over(job, whole)
    daemon.eventually(lambda: daemon.look(job)[0]["final"] and "epochs" in daemon.numbers(7))
    (known,) = daemon.look(job)
    assert not known["script_wanted"] and known["grace_until"] == grace
    assert daemon.numbers(7)["epochs"] == 44 and daemon.numbers(7)["batch_size"] == 8


def test_a_script_that_was_lost_with_its_daemon_is_asked_for_again(daemon: Daemon) -> None:
    job, long = record(7), b"#SBATCH --gres=gpu:1\n" + b"".join(b"echo %d\n" % n for n in range(20_000))
    daemon.look(job)
    daemon.hand_over(job, long)  # takes a second or more to encode
    daemon.end(signal.SIGKILL)
    daemon.start()
    (known,) = daemon.look(job)
    assert known["script_wanted"] and not known["final"]
    daemon.hand_over(job, long)
    daemon.eventually(lambda: daemon.look(job)[0]["final"])
    assert daemon.ask("GET", "/v1/health")["submissions"] == 1


def test_grace_is_only_what_the_hook_set(daemon: Daemon) -> None:
    grace = SUBMITTED + 8
    daemon.spool("1.job", submission(1, begin_time=b"%d" % grace))
    daemon.eventually(lambda: daemon.settled(1))
    assert daemon.look(record(7, begin_time=grace))[0]["grace_until"] == grace
    assert daemon.look(record(7, begin_time=grace + 50))[0]["grace_until"] == 0


def test_the_users_partitions_and_wishes_are_told(daemon: Daemon) -> None:
    wish = {"request__comment": b"slurmcast:off"}
    daemon.spool("1.job", submission(1, partition=b"a100,a6000", **wish))
    daemon.eventually(lambda: daemon.settled(1))
    (known,) = daemon.look(record(7, partitions=("a100", "a6000")))
    assert known["partition_named"] and known["allowed_partitions"] == ["a100", "a6000"]
    assert known["opted_out"] and not known["opted_in"]


def test_a_requeued_job_keeps_its_submission(daemon: Daemon) -> None:
    daemon.spool("1.job", submission(44))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look(record(7))
    (known,) = daemon.look(record(7, submit_time=SUBMITTED + 500, restarts=1))
    assert known["final"] and not known["script_wanted"]
    assert daemon.numbers(7)["epochs"] == 44


def test_a_job_that_started_before_it_was_seen_is_matched(daemon: Daemon) -> None:
    daemon.spool("1.job", submission(44, begin_time=b"%d" % (SUBMITTED + 8)))
    daemon.eventually(lambda: daemon.settled(1))
    started = replace(record(7), state="RUNNING")
    assert daemon.look(running=[started]) == []
    assert daemon.numbers(7)["epochs"] == 44
    known, unknown = daemon.expected(started, replace(started, job_id=8, uid=2))
    assert (known["job_id"], known["estimate"]["partition"]) == (7, "a100")
    assert (unknown["job_id"], unknown["estimate"]) == (8, None)
    assert daemon.ask("GET", "/v1/queue")["jobs"] == []


def test_a_running_job_whose_spool_file_comes_later_is_matched_too(daemon: Daemon) -> None:
    daemon.look(running=[replace(record(7), state="RUNNING")])
    daemon.spool("1.job", submission(44))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look()
    assert daemon.numbers(7)["epochs"] == 44


def test_tasks_of_an_array_are_one_job_whichever_of_them_are_seen(daemon: Daemon) -> None:
    waiting = record(7, is_array=True, array_job_id=7)
    task = replace(waiting, job_id=8, state="RUNNING")
    daemon.look(waiting, running=[task])  # before the spool file has come
    daemon.spool("1.job", submission(44))
    daemon.eventually(lambda: daemon.settled(1))
    (known,) = daemon.look(waiting, running=[replace(task, job_id=9)])
    assert known["estimates"]
    assert daemon.numbers(7)["epochs"] == 44
    (expected,) = daemon.expected(task)
    assert (expected["job_id"], expected["estimate"]["partition"]) == (8, "a100")


def test_sources_are_read_only_where_the_admin_allows_it(daemon: Daemon) -> None:
    home = daemon.folder / "home"
    home.mkdir()
    (home / "train.py").write_text("EPOCHS = 77\n")
    for path in (home, home / "train.py"):
        os.chown(path, 54321, 54321)
    daemon.spool("1.job", submission(0, script=b"#SBATCH --gres=gpu:1\npython train.py\n", work_dir=str(home).encode()))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look(record(7))
    assert "epochs" not in daemon.numbers(7)
    daemon.end()
    daemon.settings = "read_sources = true"
    daemon.start()
    daemon.spool(
        "2.job",
        submission(0, script=b"#SBATCH --gres=gpu:1\npython train.py\n", work_dir=str(home).encode(), name=b"two"),
    )
    daemon.eventually(lambda: daemon.settled(2))
    daemon.look(record(8, name="two"))
    assert daemon.numbers(8)["epochs"] == 77
    assert daemon.ask("GET", "/v1/explain/8")["made_from"] == "script and sources"
