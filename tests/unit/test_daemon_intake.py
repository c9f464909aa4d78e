"""From spool files to estimates, whatever happens on the way: garbage, kill -9, a full disk, a new model."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.codec import to_json
from slurmcast.daemon.spool import MAX_FILE
from slurmcast.model import Outcome
from tests.unit.daemon_harness import ALICE, BOB, SUBMITTED, Daemon, daemon_in, record, submission


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        yield unit


def test_garbage_is_set_aside_with_the_reason(daemon: Daemon) -> None:
    daemon.start()
    spool = daemon.config.paths.spool
    daemon.spool("bad.job", b"not a spool file")
    daemon.spool("cut.job", submission(1)[:-7])
    daemon.spool("x" * 254, b"a name that leaves no room for .reason")
    daemon.spool("huge.job", submission(1) + bytes(MAX_FILE))
    daemon.spool("far.job", submission(1, submit_time=b"9" * 15))
    daemon.spool("\udcff.job", b"a name that is no UTF-8")
    (spool / "link.job").symlink_to("/etc/passwd")
    os.mkfifo(spool / "fifo.job")
    (spool / "folder.job").mkdir()
    daemon.spool("good.job", submission(2))
    daemon.eventually(lambda: daemon.settled(1))
    reasons = {path.name: path.read_text() for path in daemon.config.paths.rejected.glob("*.reason")}
    assert {name.split(".")[0] for name in reasons if name[0] != "x"} == {
        "\udcff",
        "bad",
        "cut",
        "huge",
        "far",
        "link",
        "fifo",
        "folder",
    }
    assert "begin" in reasons["bad.job.reason"] and "range" in reasons["far.job.reason"]
    assert len(reasons) == daemon.ask("GET", "/v1/health")["rejected"] == 9
    assert "set aside" in daemon.log and "root:" not in daemon.log


def test_what_cannot_be_removed_is_said_once_and_stops_nothing(daemon: Daemon) -> None:
    daemon.start()
    (daemon.config.paths.spool / "folder.job/inside").mkdir(parents=True)
    for n in range(3):
        daemon.spool(f"{n}.job", submission(n))
        daemon.eventually(lambda n=n: daemon.ask("GET", "/v1/health")["submissions"] == n + 1)
    assert daemon.log.count("can't be removed") == 1


def test_odd_bytes_of_users_are_taken_in(daemon: Daemon) -> None:
    daemon.start()
    odd = b"caf\xe9\n\0"
    fields = {"argv": b"/x/\xff\0\xfe\0", "environment": b"TASK=\xff\0", "request__comment": odd, "work_dir": odd}
    daemon.spool("1.job", submission(1, name=b"caf\xe9", **fields, script=b"#!/bin/sh\n#SBATCH -J \xff\n\xfe\0\r\n"))
    daemon.eventually(lambda: daemon.settled(1))
    known = daemon.look(record(7, name="caf\ufffd", submit_line="sbatch x.sh \ufffd"))[0]
    assert known["final"]
    assert daemon.ask("GET", "/v1/explain/7")["name"] == "caf\ufffd"


def test_a_name_that_could_not_be_read_fits_every_name(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(1))
    daemon.eventually(lambda: daemon.settled(1))
    assert daemon.look(record(7, name=""))[0]["final"]


def test_kill_9_in_the_middle_loses_nothing_and_doubles_nothing(daemon: Daemon) -> None:
    daemon.start()
    draw = random.Random(5)
    deaths = sorted(draw.sample(range(50), 3))
    for n in range(50):
        daemon.spool(f"{n:02}.job", submission(n + 1, name=b"job %d" % n))
        if n in deaths:
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            daemon.start()
    daemon.eventually(lambda: daemon.settled(50))
    jobs = [record(n + 1, name=f"job {n}") for n in range(50)]
    assert all(entry["final"] for entry in daemon.look(*jobs))
    assert [daemon.numbers(n)["epochs"] for n in range(1, 51)] == list(range(1, 51))
    assert daemon.ask("GET", "/v1/health")["estimates"] == 100


def test_files_that_came_while_it_was_away_are_taken_in(daemon: Daemon) -> None:
    for n in range(3):
        daemon.spool(f"{n}.job", submission(n))
    daemon.start()
    daemon.eventually(lambda: daemon.settled(3))


def test_a_damaged_run_of_a_user_stops_nobody(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(1))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look(record(1))
    ran = Outcome(1, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 9, SUBMITTED + 99, 90.0)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ran)]})
    daemon.end()
    with closing(sqlite3.connect(daemon.config.paths.store)) as store, store:
        store.execute("UPDATE outcome SET outcome = replace(outcome, ':', ';')")
    daemon.start()
    for n, uid in ((2, ALICE), (3, BOB)):
        daemon.spool(f"{n}.job", submission(n, uid=b"%d" % uid, submit_time=b"%d" % (SUBMITTED + 100)))
    daemon.eventually(lambda: daemon.settled(3))
    (known,) = daemon.look(record(2, submit_time=SUBMITTED + 100))
    assert (known["final"], known["estimates"][0]["source"]) == (True, "prior")
    assert "no estimate by history" in daemon.log


def test_a_spool_that_comes_later_is_taken_in(daemon: Daemon) -> None:
    spool = daemon.config.paths.spool
    spool.rmdir()
    daemon.start()
    daemon.eventually(lambda: "can't be taken in" in daemon.log)
    spool.mkdir()
    daemon.spool("1.job", submission(1))
    daemon.eventually(lambda: daemon.settled(1))


def test_submissions_that_never_became_a_job_expire(daemon: Daemon) -> None:
    daemon.start()
    for n in range(2):
        daemon.spool(f"{n}.job", submission(n, name=b"job %d" % n))
    daemon.eventually(lambda: daemon.settled(2))
    daemon.look(record(7, name="job 0"))
    daemon.end()
    daemon.expiry_s = 86400
    daemon.start()  # looks at once; the submissions are years old
    daemon.eventually(lambda: daemon.ask("GET", "/v1/health")["submissions"] == 1)
    assert daemon.look(record(7, name="job 0"))[0]["final"]


def test_a_full_disk_loses_nothing(daemon: Daemon) -> None:
    state = daemon.folder / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(state)], check=True)
    try:
        daemon.start()
        (state / "ballast").write_bytes(bytes(4096 * (os.statvfs(state).f_bavail - 2)))
        for n in range(20):
            daemon.spool(f"{n}.job", submission(n))
        daemon.eventually(lambda: "is the disk full?" in daemon.log)
        assert daemon.answers()
        answer = daemon.ask("POST", "/v1/predict", {"script": "#!/bin/sh\n#SBATCH --gres=gpu:1 -t 30\nnew-work\n"})
        assert "can't be encoded" in answer["remark"] and len(answer["estimates"]) == 2
        assert len(list(daemon.config.paths.spool.iterdir())) > 0
        (state / "ballast").unlink()
        daemon.eventually(lambda: daemon.settled(20))
        assert daemon.end() == 0
        with sqlite3.connect(state / "store.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end()
        subprocess.run(["umount", "-l", str(state)], check=True)


def test_a_new_model_is_taken_over_and_pending_jobs_estimated_anew(daemon: Daemon) -> None:
    daemon.start()
    for n in range(24):
        daemon.spool(f"{n:02}.job", submission(n, name=b"job %d" % n))
    daemon.eventually(lambda: daemon.settled(24))
    jobs = [record(n + 1, name=f"job {n}") for n in range(24)]
    assert {known["estimates"][0]["source"] for known in daemon.look(*jobs)} == {"prior"}
    run = Outcome(0, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 9, SUBMITTED + 99, 0.0, 0.01)
    done = [replace(run, job_id=job.job_id, elapsed_s=100.0 + 9 * job.job_id) for job in jobs[:-1]]
    done += [replace(one, partition="a6000", gpu_type="a6000", start_time=SUBMITTED + 500) for one in done]
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(one) for one in done]})
    revision = daemon.ask("GET", "/v1/agent/wait?revision=-1")["revision"]
    trained = subprocess.run(daemon.command("train", "--json"), capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=9")["revision"] > revision
    daemon.eventually(lambda: daemon.look(jobs[-1])[0]["estimates"][0]["source"] == "probe")
    assert daemon.ask("GET", "/v1/health")["model"]
    broken = daemon.config.paths.models / "99991231-000000-00000000"
    broken.mkdir()
    (broken / "model.json").write_text("{}")
    link = daemon.config.paths.models / ".new"
    link.symlink_to(broken.name)
    link.replace(daemon.config.paths.models / "current")
    daemon.eventually(lambda: "can't be used, going on with" in daemon.log)
    assert daemon.ask("GET", "/v1/health")["model"] != broken.name
