"""slurmcastd as a process: spool to estimate, rights by peer credentials and munge, kill -9, a second daemon."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import Client, ClientError
from slurmcast.codec import to_json
from slurmcast.config import Config, load
from slurmcast.model import Decision, Job, Outcome
from tests.unit.test_spool import spool_file

ALICE, BOB, AGENT = 54321, 54322, 0


def script(n: int) -> bytes:
    return b"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\npython train.py --epochs %d\n" % n


def submission(n: int, uid: int = ALICE, **fields: bytes) -> bytes:
    request = {"request__tres_per_node": b"gres/gpu:1", "request__time_limit": b"30"}
    return spool_file(uid=b"%d" % uid, user=b"alice", name=b"job", **request, **fields, script=script(n))


def record(job_id: int, uid: int = ALICE, **fields: Any) -> Job:
    base = {"begin_time": 1700000000, "gpus_total": 1, "submit_line": "sbatch train.sh"}
    return Job(job_id, "alice", uid, "job", "PENDING", "None", ("a100",), 1700000000, **{**base, **fields})


@dataclass
class Daemon:
    """A slurmcastd with folders of its own."""

    folder: Path
    config_path: Path
    config: Config
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "slurmcast.cli", "--config", str(self.config_path), "serve"], stderr=log
            )
        eventually(self.answers, self.log)

    def answers(self) -> bool:
        try:
            return bool(self.ask("GET", "/v1/health"))
        except ClientError:
            return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(20)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return Client(self.config).request(method, path, body)

    def ask_as(self, uid: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request of another user: status and answer."""
        code = (
            "import http.client, socket, sys\n"
            "c = http.client.HTTPConnection('x'); c.sock = socket.socket(socket.AF_UNIX)\n"
            "c.sock.connect(sys.argv[1]); c.request(sys.argv[2], sys.argv[3], sys.stdin.read() or None)\n"
            "r = c.getresponse(); print(r.status); print(r.read().decode())\n"
        )
        command = [
            "setpriv",
            f"--reuid={uid}",
            "--clear-groups",
            "/usr/bin/env",
            "-i",
            os.path.realpath(sys.executable),
        ]
        done = subprocess.run(
            [*command, "-I", "-c", code, str(self.config.paths.socket), method, path],
            input=json.dumps(body) if body is not None else "",
            capture_output=True,
            text=True,
            check=True,
        )
        status, answer = done.stdout.split("\n", 1)
        return int(status), json.loads(answer)

    def spool(self, name: str, content: bytes) -> None:
        draft = self.config.paths.spool / f".{name}"
        draft.write_bytes(content)
        draft.rename(self.config.paths.spool / name)

    def settled(self, submissions: int) -> bool:
        health = self.ask("GET", "/v1/health")
        return (
            health["submissions"] == submissions
            and not health["waiting"]
            and not list(self.config.paths.spool.iterdir())
        )


def eventually(check: Callable[[], Any], log: Path, timeout: float = 40) -> None:
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout} s; the daemon's log:\n{log.read_text()}")
        time.sleep(0.05)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    tmp_path.chmod(0o755)
    run = tmp_path / "run"
    (run / "spool").mkdir(parents=True)
    path = tmp_path / "slurmcast.toml"
    path.write_text(
        f"""
        cluster = "test"
        [paths]
        run_dir = "{run}"
        state_dir = "{tmp_path}/state"
        [daemon]
        readback_after_s = 0
        [[partition]]
        name = "a100"
        prior_power_w = 250.0
        [[partition]]
        name = "a6000"
        prior_power_w = 200.0
        """
    )
    for parent in [tmp_path, *tmp_path.parents]:  # other users must reach the socket
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    unit = Daemon(tmp_path, path, load(path))
    yield unit
    if unit.process is not None and unit.process.poll() is None:
        unit.end()


def jobs_answer(daemon: Daemon, *jobs: Job) -> list[dict[str, Any]]:
    body = {"jobs": [to_json(job) for job in jobs], "default": ["a100"]}
    answer: list[dict[str, Any]] = daemon.ask("POST", "/v1/agent/jobs", body)["jobs"]
    return answer


def test_from_spool_to_explain(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    eventually(lambda: daemon.settled(1), daemon.log)
    (known,) = jobs_answer(daemon, record(7))
    assert known["final"] and not known["partition_named"] and not known["script_wanted"]
    assert [e["partition"] for e in known["estimates"]] == ["a100", "a6000"]
    first = known["estimates"][0]
    assert first["source"] == "prior" and first["time_s"]["p90"] == 1800.0
    assert first["energy_kwh"]["p90"] == pytest.approx(1800 * 250 / 3.6e6)
    decision = Decision(7, 1700000000, 5.0, "a6000", "because", rank=0, site_factor=12, changed=True)
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [to_json(decision)]})
    answer = daemon.ask("GET", "/v1/explain/7")
    assert answer["decision"] == {"partition": "a6000", "site_factor": 12, "at": 5.0}
    assert answer["reason"] == "because" and answer["rank"] == 0


def test_only_owner_and_operators_see_a_job(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    eventually(lambda: daemon.settled(1), daemon.log)
    jobs_answer(daemon, record(7))
    assert daemon.ask_as(ALICE, "GET", "/v1/explain/7")[0] == 200
    foreign, missing = daemon.ask_as(BOB, "GET", "/v1/explain/7"), daemon.ask_as(BOB, "GET", "/v1/explain/8")
    assert foreign[0] == missing[0] == 404
    assert foreign[1]["error"].replace("7", "8") == missing[1]["error"]
    assert [j["job_id"] for j in daemon.ask_as(ALICE, "GET", "/v1/queue")[1]["jobs"]] == [7]
    assert daemon.ask_as(BOB, "GET", "/v1/queue")[1]["jobs"] == []


def test_only_the_agent_may_speak_for_it(daemon: Daemon) -> None:
    daemon.start()
    for path in ("jobs", "script", "decisions", "outcomes"):
        assert daemon.ask_as(ALICE, "POST", f"/v1/agent/{path}", {})[0] == 403
    assert daemon.ask_as(ALICE, "GET", "/v1/agent/wait")[0] == 403
    assert daemon.ask_as(ALICE, "PUT", "/v1/kappa", {"kappa": 1})[0] == 403
    assert daemon.ask_as(ALICE, "GET", "/v1/kappa")[1]["kappa"] == pytest.approx(1e-4)


def test_kappa_is_kept(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.ask("PUT", "/v1/kappa", {"kappa": 0.5})["kappa"] == 0.5
    daemon.end()
    daemon.start()
    assert daemon.ask("GET", "/v1/kappa")["by"] == "root"
    with pytest.raises(ClientError, match="from 0 up"):
        daemon.ask("PUT", "/v1/kappa", {"kappa": -1})


def test_garbage_is_set_aside_with_the_reason(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("bad.job", b"not a spool file")
    daemon.spool("cut.job", submission(1)[:-7])
    daemon.spool("good.job", submission(2))
    eventually(lambda: daemon.settled(1), daemon.log)
    reasons = {path.name: path.read_text() for path in daemon.config.paths.rejected.glob("*.reason")}
    assert set(reasons) == {"bad.job.reason", "cut.job.reason"}
    assert "begin" in reasons["bad.job.reason"]


def test_kill_9_in_the_middle_loses_nothing_and_doubles_nothing(daemon: Daemon) -> None:
    daemon.start()
    for n in range(50):
        daemon.spool(f"{n}.job", submission(n))
        if n in (10, 30):
            daemon.end(signal.SIGKILL)
            daemon.start()
    eventually(lambda: daemon.settled(50), daemon.log)
    found = jobs_answer(daemon, *(record(n) for n in range(1, 51)))
    assert all(entry["final"] for entry in found)
    assert len({json.dumps(entry["estimates"]) for entry in found}) == 1  # priors: all have the same limit


def test_same_script_other_arguments_are_told_apart(daemon: Daemon) -> None:
    daemon.start()
    for n, epochs in enumerate((b"1", b"90")):
        daemon.spool(f"{n}.job", submission(3, argv=b"/home/alice/train.sh\0--epochs\0" + epochs + b"\0"))
    eventually(lambda: daemon.settled(2), daemon.log)
    jobs_answer(daemon, *(record(j, submit_line=f"sbatch train.sh --epochs {e}") for j, e in ((8, "90"), (7, "1"))))
    explained = [daemon.ask("GET", f"/v1/explain/{job_id}") for job_id in (7, 8)]
    assert explained[0]["key"] != explained[1]["key"]
    again = daemon.ask("POST", "/v1/predict", {"script": script(3).decode(), "argv": ["train.sh", "--epochs", "1"]})
    assert again["numbers"]["epochs"] == explained[0]["numbers"]["epochs"]


def test_a_job_without_a_spool_file_is_read_back(daemon: Daemon) -> None:
    import base64

    daemon.start()
    job = record(7, submit_line="sbatch -p a100 --gres=gpu:1 train.sh --epochs 5")
    (known,) = jobs_answer(daemon, job)
    assert known["script_wanted"]
    body = {"job": to_json(job), "script_base64": base64.b64encode(script(5) + b"# caf\xe9\n").decode()}
    daemon.ask("POST", "/v1/agent/script", body)
    eventually(lambda: jobs_answer(daemon, job)[0].get("final"), daemon.log)
    assert jobs_answer(daemon, job)[0]["partition_named"]


def test_outcomes_come_once(daemon: Daemon) -> None:
    daemon.start()
    outcome = to_json(Outcome(7, 1700000000, "a100", "a100", 1, "COMPLETED", 1700000010, 1700000020, 10.0))
    assert daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [outcome]})["stored"] == 1
    assert daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [outcome]})["stored"] == 0


def test_the_agent_is_woken_by_an_estimate(daemon: Daemon) -> None:
    daemon.start()
    revision = daemon.ask("GET", "/v1/agent/wait?revision=-1")["revision"]
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=0.2")["revision"] == revision
    daemon.spool("1.job", submission(5))
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=9")["revision"] > revision


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("POST", "/v1/agent/jobs", {"jobs": [{"job_id": "x"}]}, 400),
        ("POST", "/v1/agent/jobs", [], 400),
        ("POST", "/v1/agent/script", {"job": {}, "script_base64": ""}, 400),
        ("PUT", "/v1/kappa", {"kappa": "much"}, 400),
        ("POST", "/v1/predict", {}, 400),
    ],
)
def test_bad_requests_are_answered(daemon: Daemon, method: str, path: str, body: Any, status: int) -> None:
    daemon.start()
    assert daemon.ask_as(0, method, path, body)[0] == status
    connection = http.client.HTTPConnection("x")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.config.paths.socket))
    connection.request("POST", "/v1/predict", b"{no json")
    assert connection.getresponse().status == 400
    assert daemon.answers()


def test_a_second_daemon_is_refused(daemon: Daemon) -> None:
    daemon.start()
    second = subprocess.run(
        [sys.executable, "-m", "slurmcast.cli", "--config", str(daemon.config_path), "serve"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1 and "another slurmcastd runs" in second.stderr
    assert daemon.answers()


def test_sigterm_ends_it_cleanly(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.end() == 0


def test_no_daemon_says_what_to_do(daemon: Daemon) -> None:
    with pytest.raises(ClientError, match="start it"):
        daemon.ask("GET", "/v1/health")


@pytest.fixture
def munged(tmp_path: Path) -> Iterator[str]:
    """A munged of the test's own; its socket."""
    assert shutil.which("munged"), "install munge: apt-get install munge (make test has it)"
    folder = Path("/run") / f"munge-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    options = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    command = ["munged", "--foreground", "--force", *(f"--{name}={folder}/{file}" for name, file in options.items())]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    eventually((folder / "socket").exists, folder / "log")
    yield str(folder / "socket")
    process.terminate()
    process.wait(10)
    shutil.rmtree(folder)


def test_from_another_host_by_munge(daemon: Daemon, munged: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = daemon.config_path.read_text()
    door = f'[daemon]\nlisten = "127.0.0.1:{port}"\nmunge_socket = "{munged}"\n'
    daemon.config_path.write_text(text.replace("[daemon]", door))
    daemon.config = load(daemon.config_path)
    daemon.start()
    login = tmp_path / "login.toml"
    login.write_text(
        f'[paths]\nrun_dir = "/nowhere"\n[client]\nserver = "127.0.0.1:{port}"\nmunge_socket = "{munged}"\n'
    )
    client = Client(load(login))
    assert client.request("GET", "/v1/health")["status"] == "ok"
    with pytest.raises(ClientError, match="no job 5"):
        client.request("GET", "/v1/explain/5")

    def post(body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/v1/munge", body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    request = json.dumps({"method": "GET", "path": "/v1/health"})
    command = ["munge", f"--socket={munged}"]
    credential = subprocess.run(command, input=request.encode(), capture_output=True, check=True).stdout.strip()
    assert post(credential)[0] == 200
    assert post(credential)[0] == 401  # replayed
    assert post(b"MUNGE:garbage:")[0] == 401
    assert post(b"")[0] == 401
