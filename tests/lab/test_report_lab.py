"""Reports on jobs of two users that a real Slurm ran: who sees what, on the daemon's host and from another."""

from __future__ import annotations

import json
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

SCRIPT = "#!/bin/bash\nsleep 1\n"
REFUSAL = "Error: only operators may see other users' runs; ask your admin"
ELSEWHERE = '[paths]\nrun_dir = "/nowhere"\n[client]\nserver = "127.0.0.1:6990"\n'


def report(*words: str, user: str = "root", config: str = "") -> dict[str, Any]:
    chosen = ["--config", config] if config else []
    answer: dict[str, Any] = json.loads(run("slurmcast", *chosen, "report", *words, "--json", user=user))
    return answer


def users(answer: dict[str, Any]) -> dict[str, int]:
    return {row["name"]: row["runs"] for row in answer["by"]["user"]}


def test_everybody_sees_what_is_his(slurm: Slurm, services: Services) -> None:
    services.start()
    now = ("--since", datetime.now().isoformat(timespec="seconds"))  # runs of other tests ended before
    expected = {"alice": 3, "bob": 1}
    slurm.sbatch("--gres=gpu:1", "-t", "5", "--array=0-1", script=SCRIPT)
    slurm.sbatch("--gres=gpu:1", "-t", "5", script=SCRIPT + "exit 1\n")
    slurm.sbatch("--gres=gpu:2", "-t", "5", user="bob", script=SCRIPT)
    eventually(lambda: users(report(*now)) == expected, "all runs are in the report", 60)

    everything = report(*now)
    assert {row["name"] for row in everything["by"]["account"]} == {"research"}
    assert everything["total"]["lost_runs"] == 1 and everything["total"]["energy_kwh"] is None, "nothing was measured"
    assert everything["estimates"]["limits"]["runs"] == 3
    assert users(report("--user", "bob", *now)) == {"bob": 1}

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        elsewhere, page = Path(folder) / "elsewhere.toml", Path(folder) / "page.html"
        elsewhere.write_text(ELSEWHERE)
        for config in ("", str(elsewhere)):  # by the socket, and by munge
            assert users(report(*now, user="alice", config=config)) == {"alice": 3}
            assert refusal("bob", config) == refusal("nobody-of-that-name", config) == REFUSAL
        run("slurmcast", "report", "--html", str(page), user="alice")
        assert "alice" in page.read_text() and "bob" not in page.read_text()


def refusal(name: str, config: str) -> str:
    """What alice is told when she asks for the runs of ``name``."""
    command = ["runuser", "-u", "alice", "--", "slurmcast", *(["--config", config] if config else [])]
    done = subprocess.run([*command, "report", "--user", name], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip()
