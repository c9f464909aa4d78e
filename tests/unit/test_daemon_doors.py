"""The doors: slow and greedy clients harm only themselves; from other hosts by munge."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slurmcast import munge
from slurmcast.client import ClientError
from slurmcast.daemon.doors import MAX_BODIES, MAX_BODY
from slurmcast.daemon.requests import Refused
from slurmcast.daemon.shares import Held
from slurmcast.imports.mark import Mark
from slurmcast.imports.run import Import
from tests.unit.daemon_harness import ALICE, BOB, Daemon, daemon_in, login_node, record
from tests.unit.munge_harness import munged_of
from tests.unit.test_import_daemon import FIRST, LAST, Books, past


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        yield unit


def test_slow_clients_hold_up_nobody(daemon: Daemon) -> None:
    daemon.start()
    silent = [daemon.connected() for _ in range(20)]
    for number, client in enumerate(silent):
        client.sendall((b"", b"POST /v1/pre", b"POST /v1/predict HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")[number % 3])
    began = time.monotonic()
    assert daemon.ask_as(ALICE, "GET", "/v1/health")["status"] == "ok"
    assert time.monotonic() - began < 2


def test_a_long_prediction_does_not_hold_up_others(daemon: Daemon) -> None:
    daemon.start()
    text = "#SBATCH --gres=gpu:1\n" + "".join(f"echo {n}\n" for n in range(20_000))  # a second or more to encode
    busy = daemon.connected()
    body = json.dumps({"script": text}).encode()
    busy.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    began = time.monotonic()
    assert daemon.ask("GET", "/v1/health")["status"] == "ok"
    assert time.monotonic() - began < 1
    assert busy.recv(12) == b"HTTP/1.1 200"


def test_more_than_a_request_may_hold_is_refused(daemon: Daemon) -> None:
    daemon.start()
    with pytest.raises(ClientError, match="more than 8388608 bytes"):
        daemon.ask_as(ALICE, "POST", "/v1/predict", {"script": "x" * MAX_BODY})
    with pytest.raises(ClientError, match="script: must be"):  # the agent may send more
        daemon.ask("POST", "/v1/predict", {"padding": "x" * MAX_BODY})


def test_what_users_send_at_a_time_is_bounded(daemon: Daemon) -> None:
    """Nobody can fill the memory with requests that he doesn't finish: not even several users together."""
    daemon.start()
    head = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_BODY
    held = Held(MAX_BODY, MAX_BODIES)
    with held.room(ALICE) as take, held.room(BOB) as take_bob:
        take(MAX_BODY)
        with pytest.raises(Refused, match="too much"), held.room(ALICE) as take_more:
            take_more(1)
        take_bob(MAX_BODY)
        with held.room(3) as take_third, held.room(4) as take_fourth:
            take_third(MAX_BODY)
            with pytest.raises(Refused, match="too much"):
                take_fourth(1)
    with held.room(ALICE) as take:  # and all of it is given back
        take(MAX_BODY)
    sender = os.fork()
    if sender == 0:
        os.setresuid(ALICE, ALICE, ALICE)
        hers = [daemon.connected() for _ in range(3)]
        for client in hers:
            client.sendall(head)
            with contextlib.suppress(OSError):
                client.sendall(b"x" * (MAX_BODY // 2 + 1))
        answered, _, _ = select.select(hers, [], [], 20)
        os._exit(0 if answered and answered[0].recv(12) == b"HTTP/1.1 503" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(sender, 0)[1]) == 0
    assert daemon.ask_as(ALICE, "GET", "/v1/health")["status"] == "ok"


def test_json_that_is_nested_deep(daemon: Daemon) -> None:
    daemon.start()
    client = daemon.connected()
    client.sendall(b"POST /v1/predict HTTP/1.0\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000)
    assert client.recv(12) == b"HTTP/1.0 400"
    assert "Traceback" not in daemon.log


def test_a_body_that_is_no_json(daemon: Daemon) -> None:
    daemon.start()
    client = daemon.connected()
    client.sendall(b"POST /v1/predict HTTP/1.0\r\nContent-Length: 3\r\n\r\n{no")
    with client.makefile() as answer:
        text = answer.read()
    assert text.startswith("HTTP/1.0 400") and "no JSON" in text


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
        b"GET /v1/agent/wait?revision=0&timeout=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\n\r\n",
        b"\x00\xff nonsense\r\n\r\n",
        b"GET /" + b"x" * 100_000,
    ],
)
def test_what_a_client_gets_wrong_is_no_fault_of_the_daemon(daemon: Daemon, request_bytes: bytes) -> None:
    daemon.start()
    client = daemon.connected()
    client.sendall(request_bytes)
    time.sleep(0.2)
    client.close()
    time.sleep(0.2)
    assert daemon.answers()
    assert "ERROR" not in daemon.log and "Traceback" not in daemon.log


@pytest.fixture
def door(daemon: Daemon, munged: str) -> str:
    """The address of a running daemon's door."""
    return daemon.start_with_door(munged)


def test_from_another_host_by_munge(daemon: Daemon, door: str, munged: str, tmp_path: Path) -> None:
    client = login_node(tmp_path, door, munged)
    assert client.request("GET", "/v1/health")["status"] == "ok"
    daemon.look(record(5))
    assert client.request("GET", "/v1/explain/5")["user"] == "alice"
    with pytest.raises(ClientError, match="no job 6"):
        client.request("GET", "/v1/explain/6")
    many = [record(n, comment=f"{n:>99}") for n in range(2000)]
    daemon.look(*many)
    assert len(client.request("GET", "/v1/queue")["jobs"]) == len(many)  # more than munge takes, but for the packing


def test_who_asks_from_another_host_is_known(daemon: Daemon, door: str, munged: str, tmp_path: Path) -> None:
    client = login_node(tmp_path, door, munged)
    daemon.look(record(5))
    child = os.fork()
    if child == 0:
        os.setresuid(BOB, BOB, BOB)
        try:
            client.request("GET", "/v1/explain/5")
        except ClientError as error:
            os._exit(0 if "no job 5" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_no_fresh_credential_is_refused(daemon: Daemon, door: str, munged: str) -> None:
    def post(body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*door.split(":"), timeout=30)
        connection.request("POST", "/v1/munge", body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    credential = munge.seal({"method": "GET", "path": "/v1/health"}, munged)
    assert post(credential)[0] == 200
    status, answer = post(credential)
    assert status == 401 and b"used before" in answer
    for tampered in (credential[:40] + b"A" + credential[41:], b"MUNGE:garbage:", b""):
        assert post(tampered)[0] == 401
    assert post(munge.seal(["no", "request"], munged))[0] == 400
    connection = http.client.HTTPConnection(*door.split(":"), timeout=30)
    connection.request("GET", "/v1/health")  # nothing but credentials
    assert connection.getresponse().status == 404


@pytest.mark.parametrize("how", ["killed", "stopped", "gone"])
@pytest.mark.parametrize("where", ["on this host", "on slurmcastd's host"])
def test_a_munged_that_does_not_answer_is_said_and_on_which_side(
    daemon: Daemon, tmp_path: Path, where: str, how: str
) -> None:
    with munged_of("here") as here, munged_of("there") as there:
        client = login_node(tmp_path, daemon.start_with_door(there.socket), here.socket)
        assert client.request("GET", "/v1/queue") == {"jobs": []}
        victim = here if where == "on this host" else there
        assert victim.process is not None
        if how == "stopped":
            victim.process.send_signal(signal.SIGSTOP)
        else:
            victim.end(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        with pytest.raises(ClientError, match=rf"^munge doesn't answer {where}: .*: systemctl status munge$"):
            client.request("GET", "/v1/explain/5")
        assert daemon.log.count("nobody is served from other hosts") == (victim is there)
        if how == "stopped":
            victim.process.send_signal(signal.SIGCONT)
        else:
            victim.start()
        assert client.request("GET", "/v1/queue") == {"jobs": []}  # nothing else has to be set right


def test_an_answer_is_for_nobody_else(munged: str) -> None:
    credential = munge.seal({"secret": 1}, munged, only_uid=ALICE)
    command = ["unmunge", f"--socket={munged}"]
    for uid, rc in ((BOB, False), (ALICE, True)):
        done = subprocess.run(command, input=credential, capture_output=True, user=uid, check=False)
        assert (done.returncode == 0) is rc


def test_an_import_by_munge_leaves_out_only_the_scripts_that_are_too_long(
    daemon: Daemon, door: str, munged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Long(Books):
        """Scripts that can't be packed: no two of the first are short enough together, and the next never are."""

        def scripts(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
            sizes = {label: 400_000 if int(label) < 10 else 900_000 for label in jobs if int(label) < 12}
            noise = {label: os.urandom(size).hex().encode() for label, size in sizes.items()}
            return {label: text + noise.get(label, b"") for label, text in super().scripts(jobs, since, until).items()}

    runs = [past(n, state="COMPLETED" if n % 2 else "FAILED") for n in (*range(8, 12), *range(21, 60))]
    work = Import(Long(runs), login_node(tmp_path, door, munged), frozenset({"a100"}), tmp_path / "import.json")
    counts = work.run(Mark(FIRST, FIRST), LAST).counts
    assert (work.new, counts["runs"], counts["with_script"], counts["script_too_long"]) == (43, 43, 41, 2)
    assert [line.message.split(" goes ")[0] for line in caplog.records] == ["job 10", "job 11"]
    with sqlite3.connect(f"file:{daemon.config.paths.store}?mode=ro", uri=True) as store:
        without = store.execute("SELECT job_id FROM job WHERE submission IS NULL ORDER BY job_id")
        assert [job_id for (job_id,) in without] == [10, 11]
