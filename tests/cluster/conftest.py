"""Fixtures of the container cluster's tests: they run beside its containers (``make cluster-test``)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

LOGS = ("slurmctld", "slurmcastd", "slurmcast-agent", "a100-1", "a6000-1")
OFF = "--comment=slurmcast:off"
"""Of jobs that only take up room."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "SLURMCAST_CONTAINERS" not in os.environ:
        for item in items:
            if "cluster" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs the container cluster: run `make cluster-test`"))


def compose(*arguments: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``docker-compose``; the caller looks at the status."""
    command = ["docker-compose", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout)


def manage(*arguments: str) -> None:
    """Kill, stop or start containers; fails the test where that fails."""
    done = compose(*arguments)
    assert done.returncode == 0, done


def eventually(check: Callable[[], Any], what: str, timeout: float) -> Any:
    """The first true answer of ``check``, polled; fails with ``what`` and the logs after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if answer := check():
            return answer
        time.sleep(0.3)
    queue = compose("exec", "-T", "login", "squeue", "--all").stdout
    logs = compose("logs", "--no-color", "--tail", "15", *LOGS).stdout
    pytest.fail(f"not within {timeout:g} s: {what}\n{queue}\n{logs}")


class Login:
    """The login container, as its users have it."""

    def attempt(self, *command: str, user: str = "alice", stdin: str = "") -> subprocess.CompletedProcess[str]:
        return compose("exec", "-T", "-u", user, "login", *command, stdin=stdin)

    def run(self, *command: str, user: str = "alice", stdin: str = "") -> str:
        """stdout of a command; fails the test, with all that it printed, where it fails."""
        done = self.attempt(*command, user=user, stdin=stdin)
        assert done.returncode == 0, done
        return done.stdout

    def sbatch(self, *options: str, user: str = "alice", seconds: float = 60) -> int:
        """Submit a job that asks for one GPU and sleeps; the job id."""
        script = f"#!/bin/bash\n#SBATCH --gpus=1 -t 10\nsleep {seconds} # python train.py --epochs {seconds}\n"
        answer = self.run("sbatch", "--parsable", "-o", f"/data/{user}/%j.out", *options, user=user, stdin=script)
        return int(answer.split(";")[0])

    def state(self, job_id: int) -> str:
        """A job's state, empty while slurmctld doesn't answer."""
        return self.attempt("squeue", "-h", "--states=all", "-j", str(job_id), "-o", "%T").stdout.strip()

    def partition(self, job_id: int) -> str:
        return self.run("squeue", "-h", "--states=all", "-j", str(job_id), "-o", "%P").strip()

    def decided(self, job_id: int, user: str = "alice") -> dict[str, Any] | None:
        """What ``slurmcast explain`` says as soon as the agent has decided."""
        done = self.attempt("slurmcast", "explain", str(job_id), "--json", user=user)
        answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return answer if answer.get("decision") else None

    def fill(self, partition: str) -> list[int]:
        """Occupy every GPU of a partition for a while, with jobs of bob's that slurmcast leaves alone."""
        gpus = {"a100": 2, "a6000": 4}[partition]
        jobs = [self.sbatch("-p", partition, OFF, user="bob", seconds=300) for _ in range(gpus)]
        for job_id in jobs:
            self.reaches(job_id, "RUNNING", 30)
        return jobs

    def reaches(self, job_id: int, state: str, timeout: float) -> None:
        eventually(lambda: self.state(job_id) == state, f"job {job_id} is {state}", timeout)


@pytest.fixture
def login() -> Iterator[Login]:
    """The login container of a cluster whose containers all run, with an empty queue; emptied again afterwards."""
    users = Login()
    yield users
    manage("start")
    eventually(lambda: cancelled("alice") and cancelled("bob"), "slurmctld answers", 60)
    eventually(lambda: not users.attempt("squeue", "-h", "-o", "%i").stdout.split(), "the queue is empty", 60)


def cancelled(user: str) -> bool:
    return compose("exec", "-T", "-u", user, "login", "scancel", "--full", "--me").returncode == 0
