"""A real slurmcastd as a process with folders of its own, spoken to over its real socket."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import Client, ClientError
from slurmcast.codec import to_json
from slurmcast.config import Config, load
from slurmcast.model import Job

ALICE, BOB = 54321, 54322
SUBMITTED = 1_700_000_000

CONFIG = """
cluster = "test"
[paths]
run_dir = "{folder}/run"
state_dir = "{folder}/state"
[daemon]
spool_expiry_s = {expiry_s}
{daemon}
[[partition]]
name = "a100"
prior_power_w = 250.0
[[partition]]
name = "a6000"
prior_power_w = 200.0
"""


def script(n: int) -> bytes:
    """A batch script whose work depends on ``n``."""
    return b"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\npython train.py --epochs %d\n" % n


def spool_file(**fields: bytes) -> bytes:
    """A spool file of version 1; ``request__x`` stands for ``request.x``."""
    fields = {"submit_time": b"%d" % SUBMITTED, "uid": b"1000", "script_size": b"%d" % len(fields["script"]), **fields}
    fields["script"] = fields.pop("script")
    body = b"".join(b"%s %d\n%s\n" % (n.replace("__", ".").encode(), len(v), v) for n, v in fields.items())
    return b"slurmcast-spool 1\n" + body + b"end\n"


def submission(n: int, **fields: bytes) -> bytes:
    """The spool file of one of Alice's jobs; the n-th script, unless ``fields`` say otherwise."""
    request = {"request__tres_per_node": b"gres/gpu:1", "request__time_limit": b"30"}
    base = {"uid": b"%d" % ALICE, "name": b"job", **request, "script": script(n)}
    return spool_file(**{**base, **fields})


def record(job_id: int, **fields: Any) -> Job:
    """The pending job that became of a :func:`submission`."""
    base = {"begin_time": SUBMITTED, "gpus_total": 1, "submit_line": "sbatch train.sh", "uid": ALICE}
    known = {"user": "alice", "name": "job", "partitions": ("a100",), "submit_time": SUBMITTED}
    return Job(job_id=job_id, state="PENDING", reason="None", **{**base, **known, **fields})


@dataclass
class Daemon:
    """A slurmcastd with folders of its own."""

    folder: Path
    settings: str = "readback_after_s = 0"
    """Lines of the section [daemon]."""
    expiry_s: int = 2_000_000_000
    """Submissions of :data:`SUBMITTED`, long ago, must live."""
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        (self.folder / "run/spool").mkdir(parents=True)
        for parent in [self.folder, *self.folder.parents]:  # other users must reach the socket
            if parent.stat().st_uid == os.getuid() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)

    @property
    def config_path(self) -> Path:
        path = self.folder / "slurmcast.toml"
        text = CONFIG.format(folder=self.folder, daemon=self.settings, expiry_s=self.expiry_s)
        if not path.exists() or path.read_text() != text:  # a daemon that starts may be reading it
            path.write_text(text)
        return path

    @property
    def config(self) -> Config:
        return load(self.config_path)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def command(self, *words: str) -> list[str]:
        """A slurmcast command with the daemon's configuration."""
        return [sys.executable, "-m", "slurmcast.cli", "--config", str(self.config_path), *words]

    def start(self, **environment: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command("serve"), stderr=log, env={**os.environ, **environment})
        self.eventually(self.answers)

    def start_with_door(self, munge_socket: str) -> str:
        """Start, open to other hosts too; the door's address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.settings = f'listen = "{address}"\nmunge_socket = "{munge_socket}"'
        self.start()
        return address

    def connected(self, uid: int | None = None) -> socket.socket:
        """A connection to the daemon's socket, of this user or another."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        mine = os.geteuid()
        os.seteuid(mine if uid is None else uid)  # whose a connection is, the kernel takes from here
        try:
            client.connect(str(self.folder / "run/slurmcastd.sock"))
        finally:
            os.seteuid(mine)
        return client

    def answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log
        try:
            return bool(self.ask("GET", "/v1/health"))
        except ClientError:
            return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(20)

    def eventually(self, check: Callable[[], Any], timeout_s: float = 40) -> None:
        """Wait until ``check`` holds; fails with the daemon's log."""
        end = time.monotonic() + timeout_s
        while not check():
            if time.monotonic() > end:
                pytest.fail(f"not within {timeout_s} s; the daemon's log:\n{self.log}")
            time.sleep(0.05)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request as root."""
        return Client(self.config).request(method, path, body)

    def ask_as(self, uid: int, method: str, path: str, body: Any = None) -> Any:
        """A request of another user. Raises ClientError as :meth:`ask` does."""
        config = self.config
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresuid(uid, uid, uid)
            try:
                answer = {"value": Client(config).request(method, path, body)}
            except ClientError as error:
                answer = {"refused": str(error)}
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = json.loads(pipe.read())
        os.waitpid(child, 0)
        if "refused" in answer:
            raise ClientError(answer["refused"])
        return answer["value"]

    def spool(self, name: str, content: bytes) -> None:
        """What the hook does: write under a hidden name, then rename."""
        draft = self.config.paths.spool / f".{name}"
        draft.write_bytes(content)
        draft.rename(self.config.paths.spool / name)

    def settled(self, submissions: int) -> bool:
        """Whether so many submissions have been taken in and estimated, and the spool is empty."""
        health = self.ask("GET", "/v1/health")
        spool = list(self.config.paths.spool.iterdir())
        return health["submissions"] == submissions and not health["waiting"] and not spool

    def look(self, *jobs: Job, running: Sequence[Job] = ()) -> list[dict[str, Any]]:
        """The agent's look: what is known of its pending jobs."""
        records = {"jobs": [to_json(job) for job in jobs], "running": [to_json(job) for job in running]}
        body = {**records, "default": ["a100"]}
        answer: list[dict[str, Any]] = self.ask("POST", "/v1/agent/jobs", body)["jobs"]
        return answer

    def expected(self, *jobs: Job) -> list[dict[str, Any]]:
        """What the agent is told of running jobs."""
        body = {"jobs": [], "running": [to_json(job) for job in jobs], "default": ["a100"]}
        answer: list[dict[str, Any]] = self.ask("POST", "/v1/agent/jobs", body)["running"]
        return answer

    def hand_over(self, job: Job, content: bytes) -> None:
        """The agent's handing over of a script that it read back."""
        body = {"job": to_json(job), "script_base64": base64.b64encode(content).decode()}
        self.ask("POST", "/v1/agent/script", body)

    def numbers(self, job_id: int) -> dict[str, float]:
        """The numbers of the submission that the job is taken for."""
        found: dict[str, float] = self.ask("GET", f"/v1/explain/{job_id}")["numbers"]
        return found


@contextmanager
def daemon_in(folder: Path) -> Iterator[Daemon]:
    """A daemon that isn't started yet, ended at the end."""
    daemon = Daemon(folder)
    try:
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end()


def login_node(folder: Path, server: str, munge_socket: str) -> Client:
    """A client of another host, which has no socket."""
    path = folder / "login.toml"
    path.write_text(f'[paths]\nrun_dir = "/nowhere"\n[client]\nserver = "{server}"\nmunge_socket = "{munge_socket}"\n')
    return Client(load(path))
