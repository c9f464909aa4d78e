"""Sources that submitters hand over: who may, what is taken, what comes of it. A real daemon over its real socket."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmcast import capture
from slurmcast.client import ClientError
from slurmcast.codec import to_json
from slurmcast.daemon.capture_api import MAX_ALL_BYTES, MAX_JOBS
from slurmcast.model import Outcome
from slurmcast.script.gather import MAX_SOURCES
from slurmcast.script.sources import MAX_BYTES
from tests.unit.daemon_harness import ALICE, BOB, SUBMITTED, Daemon, daemon_in, record, submission

SCRIPT = b"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\npython train.py --lr 1 # caf\xe9\n"
SOURCE = b"import model\nEPOCHS = 77\nSECRET = 'a rare word'\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        unit.settings = "capture = true\nreadback_after_s = 0"
        unit.start()
        yield unit


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Alice's home, which nobody else may enter."""
    path = tmp_path / "home"
    path.mkdir()
    (path / "train.py").write_bytes(SOURCE)
    (path / "model.py").write_bytes(b"BATCH_SIZE = 8\n")
    for entry in (path, *path.iterdir()):
        os.chown(entry, ALICE, ALICE)
        entry.chmod(0o700)
    return path


def submit(daemon: Daemon, job_id: int = 7, **fields: bytes) -> None:
    """What the hook leaves of one of Alice's submissions, which becomes that job."""
    base = {"script": SCRIPT, "work_dir": b"/home/alice", "name": b"job%d" % job_id}
    daemon.spool(f"{job_id}.job", submission(0, **{**base, **fields}))


def wanted(daemon: Daemon, *jobs: int, uid: int = ALICE) -> Any:
    return daemon.ask_as(uid, "GET", f"/v1/capture?jobs={','.join(map(str, jobs or (7,)))}")


def hand_over(daemon: Daemon, job_id: int, sources: Any, uid: int = ALICE) -> Any:
    return daemon.ask_as(uid, "POST", f"/v1/capture/{job_id}", {"sources": sources})["taken"]


def refused(daemon: Daemon, job_id: int, sources: Any, uid: int = ALICE) -> str:
    with pytest.raises(ClientError) as refusal:
        hand_over(daemon, job_id, sources, uid)
    return str(refusal.value)


def seen(daemon: Daemon, *jobs: int) -> list[dict[str, Any]]:
    """The agent's look at so many jobs, whose submissions have been taken in."""
    daemon.eventually(lambda: daemon.settled(len(jobs)))
    return daemon.look(*(record(job_id, name=f"job{job_id}") for job_id in jobs))


def test_the_submitter_is_asked_and_the_estimate_made_anew(daemon: Daemon) -> None:
    submit(daemon, argv=b"/home/alice/train.sh\0caf\xe9\0", environment=b"EPOCHS=3\0")
    assert wanted(daemon) == {"wanted": None, "unknown": [7]}
    daemon.eventually(lambda: daemon.settled(1))
    job = record(7, name="job7", submit_line="sbatch train.sh caf\ufffd")
    (known,) = daemon.look(job)
    assert not known["final"]  # the agent lets the job wait a moment for something better
    before = daemon.ask("GET", "/v1/explain/7")
    assert (before["made_from"], before["sources"]) == ("script only", [])
    wish = wanted(daemon, 6, 7)
    assert wish["unknown"] == [6] and wish["wanted"]["job_id"] == 7
    assert wish["wanted"]["script"].encode("latin-1") == SCRIPT
    facts = wish["wanted"]["submission"]
    assert facts["work_dir"] == "/home/alice" and facts["argv"][1] == "caf\udce9"
    sources = {"/home/alice/train.py": "import model\nLR = 2", "/home/alice/model.py": "BATCH_SIZE = 8"}
    assert hand_over(daemon, 7, sources | {"/home/alice/other.py": "LR = 99"}) == 2
    daemon.eventually(lambda: daemon.settled(1))
    assert wanted(daemon) == {"wanted": None, "unknown": []}
    (known,) = daemon.look(job)
    assert known["final"]
    after = daemon.ask("GET", "/v1/explain/7")
    assert (after["made_from"], after["sources"]) == ("script and sources", list(sources))
    assert after["numbers"]["batch_size"] == 8 and after["numbers"]["epochs"] == 3
    assert after["key"] != before["key"] and len(after["estimates"]) == 2


def test_sources_are_the_submitters_affair(daemon: Daemon) -> None:
    submit(daemon)
    seen(daemon, 7)
    no_such = refused(daemon, 8, {})
    for uid in (BOB, 0):
        assert wanted(daemon, uid=uid) == {"wanted": None, "unknown": [7]}
        said = refused(daemon, 7, {"/home/alice/train.py": "EPOCHS = 1"}, uid)
        assert said == no_such.replace("8", "7")
    assert hand_over(daemon, 7, {"/home/alice/train.py": "EPOCHS = 5"}) == 1
    assert refused(daemon, 7, {"/home/alice/train.py": "EPOCHS = 6"}) == no_such.replace("8", "7")
    seen(daemon, 7)
    assert daemon.numbers(7)["epochs"] == 5


GARBAGE: list[tuple[Any, str]] = [
    (None, "sources: must be an object"),
    (["x"], "sources: must be an object"),
    ({"/x": "\u20ac"}, "can't be understood"),
    ({f"/{n}": "" for n in range(MAX_SOURCES + 1)}, "more than the"),
    ({"/x": "x" * (MAX_BYTES + 1)}, "a source may have"),
    ({f"/{n}": "x" * (MAX_ALL_BYTES // 5 + 1) for n in range(5)}, "all together"),
]


def test_garbage_and_too_much_is_refused(daemon: Daemon) -> None:
    submit(daemon)
    seen(daemon, 7)
    for sources, problem in GARBAGE:
        assert problem in refused(daemon, 7, sources)
    for jobs in ("", "x", "7,", "9" * 30, ",".join(map(str, range(MAX_JOBS + 1)))):
        with pytest.raises(ClientError, match=r"can't be understood|at most"):
            daemon.ask_as(ALICE, "GET", f"/v1/capture?jobs={jobs}")
    assert wanted(daemon, -1, 10**18)["unknown"] == [-1, 10**18]
    assert hand_over(daemon, 7, {"/home/alice/train.py": "EPOCHS = 5"}) == 1  # it is wanted still


def test_whatever_is_handed_over_is_data(daemon: Daemon) -> None:
    odd: list[dict[str, str]] = [
        {},
        {"/etc/passwd": "EPOCHS = 9", "train.py": "EPOCHS = 9", "": "x", "\0": "x"},
        {"/home/alice/train.py": ""},
        {"/home/alice/train.py": "\0\xff(((" * 1000},
        {"/home/alice/train.py": "(" * 200_000},
    ]
    jobs = range(1, len(odd) + 1)
    for job_id in jobs:
        submit(daemon, job_id)
    seen(daemon, *jobs)
    for job_id, sources in zip(jobs, odd, strict=True):
        hand_over(daemon, job_id, sources)
    known = seen(daemon, *jobs)
    assert all(entry["final"] and entry["estimates"] for entry in known)
    assert not any("epochs" in daemon.numbers(entry["job_id"]) for entry in known)


def test_nothing_is_wanted_where_nothing_is_missing(daemon: Daemon) -> None:
    submit(daemon, 7, script=b"#!/bin/bash\n#SBATCH --gres=gpu:1\nnvidia-smi\n")
    submit(daemon, 8, script_size=b"9999")  # cut by the hook
    seen(daemon, 7, 8)
    assert wanted(daemon, 7, 8) == {"wanted": None, "unknown": []}


def test_nothing_is_wanted_of_what_the_daemon_read_itself(daemon: Daemon, home: Path) -> None:
    daemon.end()
    daemon.settings = "capture = true\nread_sources = true"
    daemon.start()
    submit(daemon, 7, work_dir=str(home).encode())
    submit(daemon, 8, work_dir=b"/nowhere")
    seen(daemon, 7, 8)
    assert wanted(daemon, 7)["wanted"] is None
    assert wanted(daemon, 8)["wanted"]["submission"]["work_dir"] == "/nowhere"


def test_nothing_is_wanted_where_the_admin_says_so(daemon: Daemon) -> None:
    daemon.end()
    daemon.settings = ""
    daemon.start()
    submit(daemon)
    assert seen(daemon, 7)[0]["final"]
    assert "daemon.capture is false" in refused(daemon, 7, {})
    with pytest.raises(ClientError, match=r"daemon\.capture is false"):
        wanted(daemon)


def test_a_script_that_was_cut_is_asked_about_once_it_is_whole(daemon: Daemon) -> None:
    submit(daemon, script=SCRIPT[:40], script_size=b"%d" % len(SCRIPT))
    seen(daemon, 7)
    assert wanted(daemon)["wanted"] is None
    daemon.hand_over(record(7, name="job7"), SCRIPT)
    assert wanted(daemon)["wanted"]["script"].encode("latin-1") == SCRIPT


def test_a_job_that_is_over_is_read_anew_too(daemon: Daemon) -> None:
    """A short job may be done before its sources come; its run is then a lesson about script and sources."""
    submit(daemon)
    seen(daemon, 7)
    run = Outcome(7, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 1, SUBMITTED + 2, 1.0)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(run)]})
    daemon.look()
    hand_over(daemon, 7, {"/home/alice/train.py": "EPOCHS = 5"})
    daemon.eventually(lambda: daemon.ask("GET", "/v1/explain/7")["made_from"] == "script and sources")


def test_without_an_answer_the_first_estimate_becomes_final(daemon: Daemon) -> None:
    submit(daemon)
    assert not seen(daemon, 7)[0]["final"]
    revision = daemon.ask("GET", "/v1/agent/wait?timeout=0")["revision"]
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=9")["revision"] != revision
    assert seen(daemon, 7)[0]["final"]


def test_the_command_reads_what_the_user_may_read(daemon: Daemon, home: Path) -> None:
    for job_id, script in ((7, SCRIPT), (8, b"#SBATCH --gres=gpu:1\npython gone.py\n"), (9, SCRIPT), (10, SCRIPT)):
        submit(daemon, job_id, script=script, work_dir=str(home).encode())
    seen(daemon, 7, 8, 9, 10)
    config = daemon.config
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresuid(ALICE, ALICE, ALICE)
            capture.PATIENCE_S = 1.0
            os.write(writing, repr(list(capture.run(config, [7, 8, 99, 9]))).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    taken = [str(home / "train.py"), str(home / "model.py")]
    assert said == repr([(7, taken), (9, taken)])
    seen(daemon, 7, 8, 9, 10)
    answers = [daemon.ask("GET", f"/v1/explain/{job_id}") for job_id in (7, 8, 9, 10)]
    made_from = [answer["made_from"] for answer in answers]
    assert made_from == ["script and sources", "script only", "script and sources", "script only"]
    assert [answer["numbers"].get("epochs") for answer in answers] == [77, None, 77, None]


def test_the_text_is_not_kept(daemon: Daemon) -> None:
    submit(daemon)
    seen(daemon, 7)
    hand_over(daemon, 7, {"/home/alice/train.py": SOURCE.decode()})
    seen(daemon, 7)
    assert daemon.ask("GET", "/v1/explain/7")["made_from"] == "script and sources"
    daemon.end()
    with sqlite3.connect(daemon.config.paths.store) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = [path for path in (daemon.folder / "state").rglob("*") if path.is_file()]
    assert [path for path in files if b"a rare word" in path.read_bytes()] == []


def test_predict_takes_sources_too(daemon: Daemon) -> None:
    body = {"script": SCRIPT.decode("latin-1"), "work_dir": "/home/alice", "argv": ["train.sh"]}
    alone = daemon.ask_as(BOB, "POST", "/v1/predict", body)
    assert (alone["made_from"], alone["sources"]) == ("script only", [])
    both = daemon.ask_as(BOB, "POST", "/v1/predict", {**body, "sources": {"/home/alice/train.py": "EPOCHS = 4"}})
    assert (both["made_from"], both["numbers"]["epochs"]) == ("script and sources", 4)
    with pytest.raises(ClientError, match="a source may have"):
        daemon.ask_as(BOB, "POST", "/v1/predict", {**body, "sources": {"/x": "x" * (MAX_BYTES + 1)}})
