"""``slurmcast doctor`` on a real Slurm: quiet where all is well, and true about each fault."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

FRAGMENT = Path("/etc/slurm/slurmcast.lua")
CAPTURE = Path("/etc/slurm/slurmcast_capture.lua")


def failing(*options: str) -> dict[str, str]:
    """Name -> remedy of the checks that fail."""
    done = subprocess.run(["slurmcast", *options, "doctor", "--json"], capture_output=True, text=True, check=False)
    checks = json.loads(done.stdout)
    found = {check["name"]: check["remedy"] for check in checks if not check["ok"]}
    assert done.returncode == (1 if found else 0)
    assert all(found.values())
    return found


def test_a_fresh_installation_is_in_order(services: Services) -> None:
    services.start()
    assert failing() == {}
    assert "none trained yet" in run("slurmcast", "doctor")


def stop_daemon(services: Services) -> None:
    services.stop("daemon")


def run_out(services: Services) -> None:
    services.kill("agent")
    services.lease(f"on {int(time.time()) - 5} 8\n")


def open_spool(_: Services) -> None:
    Path("/run/slurmcast/spool").chmod(0o2777)


def leave_a_file(_: Services) -> None:
    Path("/var/lib/slurmcast/models").mkdir()


def demote(_: Services) -> None:
    run("sacctmgr", "-i", "modify", "user", "slurmcast-agent", "set", "adminlevel=none")


def other_partition(services: Services) -> None:
    services.configure('cluster = "lab"\n[[partition]]\nname = "h100"\n')


def forget_hook(_: Services) -> None:
    path = Path("/etc/slurm/job_submit.lua")
    path.rename("/etc/slurm/job_submit.aside")
    path.write_text("-- nothing\n")


def forget_fragment(_: Services) -> None:
    FRAGMENT.rename(f"{FRAGMENT}.aside")


def forget_capture(_: Services) -> None:
    CAPTURE.rename(f"{CAPTURE}.aside")


@pytest.mark.parametrize(
    ("fault", "names", "words"),
    [
        (stop_daemon, {"daemon", "encoder", "model"}, "slurmcastd"),
        (run_out, {"lease"}, "slurmcast-agent"),
        (open_spool, {"spool"}, "systemd-tmpfiles"),
        (leave_a_file, {"state"}, "chown -Rh slurmcast: /var/lib/slurmcast"),
        (demote, {"operator"}, "adminlevel=operator"),
        (other_partition, {"partitions"}, "[[partition]]"),
        (forget_hook, {"hook"}, "docs/hook.md"),
        (forget_fragment, {"hook"}, "docs/hook.md"),
        (forget_capture, {"capture"}, "docs/capture.md"),
    ],
)
def test_tells_each_fault(services: Services, fault: Callable[[Services], None], names: set[str], words: str) -> None:
    services.start()
    fault(services)
    try:
        found = failing()
    finally:
        Path("/run/slurmcast/spool").chmod(0o2770)
        run("sacctmgr", "-i", "modify", "user", "slurmcast-agent", "set", "adminlevel=operator", check=False)
        aside = Path("/etc/slurm/job_submit.aside")
        if aside.exists():
            aside.rename("/etc/slurm/job_submit.lua")
        for path in (FRAGMENT, CAPTURE):
            if not path.exists():
                Path(f"{path}.aside").rename(path)
    assert set(found) == names
    assert any(words in remedy for name, remedy in found.items() if name in names)


def test_without_slurm_it_says_so(services: Services) -> None:
    services.start()
    done = subprocess.run(
        ["slurmcast", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/nonexistent", "HOME": "/root"},
        executable=run("sh", "-c", "command -v slurmcast").strip(),
    )
    slurmctld = next(check for check in json.loads(done.stdout) if check["name"] == "slurmctld")
    assert not slurmctld["ok"] and "scontrol" in slurmctld["detail"]


def test_with_a_dead_slurmctld_it_ends_and_says_so(slurm: Slurm, services: Services) -> None:
    services.start()
    run("scontrol", "shutdown", "slurmctld")
    try:
        done = subprocess.run(["slurmcast", "doctor", "--json"], capture_output=True, check=False, timeout=45)
    finally:
        run("slurmctld", user="slurm")
        eventually(lambda: "UP" in run("scontrol", "ping", check=False), "slurmctld is back")
    failed = {check["name"] for check in json.loads(done.stdout) if not check["ok"]}
    assert {"slurmctld", "pyslurm", "hook", "capture", "partitions"} <= failed
    assert not {"daemon", "encoder"} & failed
