"""Fixtures of the lab tests: they run inside the lab (``make test``), as root, against its real Slurm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).parents[2] / "slurm" / "lab"
GPU_SCRIPT = "#!/bin/bash\nsleep 60\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "SLURMCAST_LAB" not in os.environ:
        for item in items:
            if "lab" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs the real Slurm: run `make test` (or `make lab`)"))


def eventually(check: Callable[[], Any], what: str, timeout: float = 20.0) -> Any:
    """The first true answer of ``check``, polled; fails with ``what`` and the logs after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if answer := check():
            return answer
        time.sleep(0.1)
    logs = "\n".join(f"== {log}\n{tail(log)}" for log in sorted(Path("/var/log/slurmcast").glob("*.log")))
    pytest.fail(f"not within {timeout:g} s: {what}\n{logs}\n== slurmctld\n{tail(Path('/var/log/slurm/slurmctld.log'))}")


def tail(path: Path, lines: int = 25) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def run(*command: str, user: str = "root", check: bool = True, stdin: str | bytes = "", **env: str) -> str:
    """Run a command as ``user``; its stdout. Fails the test, with stderr, where it fails."""
    prefix = [] if user == "root" else ["runuser", "-u", user, "--"]
    home = "/root" if user == "root" else f"/home/{user}"
    done = subprocess.run(
        [*prefix, *command],
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "HOME": home, **env},
        cwd=home if Path(home).is_dir() else "/",
    )
    if check and done.returncode != 0:
        said = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}"
        pytest.fail(f"{' '.join(command)} -> {done.returncode}\n{said}")
    return done.stdout.decode(errors="replace")  # jobs of other tests have names that are no UTF-8


class Slurm:
    """The lab's Slurm, by its own commands."""

    def sbatch(self, *options: str, user: str = "alice", script: str | bytes = GPU_SCRIPT, **env: str) -> int:
        """Submit ``script``; the job id. Output goes nowhere unless ``options`` say otherwise."""
        out = run("sbatch", "--parsable", "-o", "/dev/null", *options, user=user, stdin=script, **env)
        return int(out.split(";")[0])

    def job(self, job_id: int) -> dict[str, str]:
        """``scontrol show job`` as a dict of its Key=Value words."""
        text = run("scontrol", "show", "job", "--oneliner", str(job_id))
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run("squeue", "--json"))["jobs"]
        return found

    def site_factor(self, job_id: int) -> int:
        return int(run("sprio", "-h", "-j", str(job_id), "-o", "%S").split()[0])

    def fill(self, partition: str) -> None:
        """Occupy every GPU of a partition, so that what is submitted next has to wait."""
        for line in run("sinfo", "-h", "-N", "-p", partition, "-o", "%N %G").splitlines():
            node, gres = line.split()
            count = int(gres.split("(")[0].split(":")[-1])
            options = ["-J", "fill", "-p", partition, "-w", node, f"--gres=gpu:{count}", "-t", "5"]
            job_id = self.sbatch(*options, "--comment=slurmcast:off", user="bob")
            eventually(lambda job_id=job_id: self.job(job_id)["JobState"] == "RUNNING", f"fill job {job_id} runs")

    def cancel_all(self) -> None:
        run("scancel", "--full", *run("squeue", "-h", "-o", "%A").split(), check=False)
        eventually(lambda: not run("squeue", "-h", "-o", "%i").split(), "the queue is empty")


class Services:
    """slurmcast's daemon and agent in the lab, installed and run by slurm/lab/slurmcast.sh."""

    config = Path("/etc/slurmcast/slurmcast.toml")

    def configure(self, text: str | None = None, **agent: Any) -> None:
        """Write the configuration: the lab's own, with keys of ``[agent]`` replaced."""
        text = text or (LAB / "slurmcast.toml").read_text()
        for key, value in agent.items():
            lines = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
            at = lines.index("[agent]") + 1
            text = "\n".join([*lines[:at], f"{key} = {json.dumps(value)}", *lines[at:]]) + "\n"
        self.config.write_text(text)

    def script(self, action: str, *names: str) -> None:
        run("bash", str(LAB / "slurmcast.sh"), action, *names, PROJECT_DIR=str(LAB.parents[1]))

    def start(self, *names: str) -> None:
        self.script("start", *(names or ("daemon", "agent")))
        if "daemon" in (names or ("daemon",)):
            eventually(self.healthy, "slurmcastd answers")
        if "agent" in (names or ("agent",)):
            eventually(Path("/run/slurmcast/lease").exists, "the agent writes its lease")

    def healthy(self) -> bool:
        script = "from slurmcast import client, config; client.Client(config.load()).request('GET', '/v1/health')"
        return subprocess.run(["python", "-c", script], capture_output=True, check=False).returncode == 0

    def stop(self, *names: str) -> None:
        self.script("stop", *names)

    def kill(self, *names: str) -> None:
        self.script("kill", *names)

    def lease(self, line: str) -> None:
        """Play the agent's lease, for tests of the hook alone."""
        Path("/run/slurmcast/lease").write_text(line)

    def clean(self) -> None:
        """Stop everything and forget all state."""
        self.stop()
        Path("/run/slurmcast/lease").unlink(missing_ok=True)
        for folder in ("/run/slurmcast/spool", "/var/lib/slurmcast", "/var/lib/slurmcast-agent"):
            for entry in Path(folder).iterdir():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for log in Path("/var/log/slurmcast").glob("*.log"):
            log.write_text("")
        self.configure()


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    """The lab's Slurm with an empty queue, emptied again afterwards."""
    cluster = Slurm()
    cluster.cancel_all()
    yield cluster
    cluster.cancel_all()


@pytest.fixture
def services() -> Iterator[Services]:
    """slurmcast without any state, not started; stopped and cleaned afterwards."""
    units = Services()
    units.clean()
    yield units
    units.clean()
