"""munge away on a real cluster: what commands on other hosts say, what those beside the daemon do, and the way back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmcast.config import Config
from slurmcast.doctor import host
from tests.lab.conftest import Services, Slurm, eventually, run
from tests.lab.test_end_to_end import decided, script

pytestmark = pytest.mark.lab

LOGIN = Path("/run/login-munge")
CLIENT = Path("/tmp/munge-client.toml")


@contextmanager
def a_munged_of_the_login_host() -> Iterator[None]:
    """With the cluster's key, beside the cluster's own munged."""
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={LOGIN / file}" for option, file in files.items()]
    run("install", "-d", "-o", "munge", "-m", "755", str(LOGIN))
    run("runuser", "-u", "munge", "--", "munged", *options)
    try:
        yield
    finally:
        run("kill", (LOGIN / "pid").read_text().strip())


@contextmanager
def without_the_clusters_munged() -> Iterator[None]:
    run("kill", "-KILL", Path("/run/munge/munged.pid").read_text().strip())
    try:
        yield
    finally:
        words = "runuser -u munge -- munged --num-threads=4 --force"
        run("env", "-u", "LD_PRELOAD", *words.split())  # munged keeps real time


def said(*command: str) -> tuple[int, str]:
    """Exit status of a command of alice's on a host without the daemon's socket, and what it printed."""
    words = ["runuser", "-u", "alice", "--", "slurmcast", "--config", str(CLIENT), *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, (done.stderr or done.stdout).strip()


def test_which_munge_is_away_is_said(slurm: Slurm, services: Services) -> None:
    services.start()
    slurm.fill("a100")
    slurm.fill("a6000")
    job_id = slurm.sbatch(script=script(3))
    before = eventually(lambda: decided(job_id), f"job {job_id} is decided")
    asked = ("explain", str(job_id)), ("queue",), ("explain", "999999")
    CLIENT.write_text(
        f'[paths]\nrun_dir = "/nowhere"\n[client]\nserver = "127.0.0.1:6990"\nmunge_socket = "{LOGIN}/socket"\n'
    )
    for command in asked:
        code, line = said(*command)
        assert code == 1 and line.startswith("Error: munge doesn't answer on this host: ") and "\n" not in line
    with a_munged_of_the_login_host():
        with without_the_clusters_munged():
            for command in asked:
                code, line = said(*command)
                assert code == 1 and line.startswith("Error: munge doesn't answer on slurmcastd's host: ")
                assert line.endswith("systemctl status munge") and "\n" not in line
            check = host.check_munge(Config())
            assert not check.ok and "systemctl status munge" in check.remedy
            # Beside the daemon there is no need of munge: the last decision stands.
            assert decided(job_id)["eligibility"] == before["eligibility"]
        assert host.check_munge(Config()).ok
        assert said("explain", str(job_id))[0] == 0
        assert "no job 999999 of yours" in said("explain", "999999")[1]
    after = slurm.sbatch(script=script(4))
    eventually(lambda: decided(after), f"job {after}, submitted when munge was back, is decided", 60)
