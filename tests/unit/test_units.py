"""The systemd units: as closed as docs/security.md says, and not more than the programs can bear."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
RATINGS = {
    "slurmcastd": 1.6,
    "slurmcast-agent": 1.4,
    "slurmcast-release": 1.4,
    "slurmcast-train": 0.7,
    "slurmcast-meter": 2.0,
}
CLOSED = [
    "CapabilityBoundingSet=",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    *(f"Protect{what}=yes" for what in ("KernelTunables", "KernelModules", "KernelLogs", "ControlGroups", "Clock")),
    "ProtectProc=invisible",
    "PrivateTmp=yes",
    *(f"Restrict{what}=yes" for what in ("Namespaces", "Realtime", "SUIDSGID")),
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
]
"""Also where there is no systemd-analyze."""
BREAKING = [
    ("slurmcastd", "PrivateUsers"),  # SO_PEERCRED and owners of source files become nobody
    ("slurmcastd", "PrivateNetwork"),  # daemon.listen, encoder.kind = "remote"
    ("slurmcastd", "ProcSubset"),  # onnxruntime reads /proc/cpuinfo
    ("slurmcast-train", "ProcSubset"),
    ("slurmcast-train", "MemoryDenyWriteExecute"),  # torch compiles for the processor
    ("slurmcast-agent", "PrivateNetwork"),  # slurmctld, slurmdbd
    ("slurmcast-release", "PrivateNetwork"),
]


@pytest.mark.parametrize("name", RATINGS)
def test_what_none_may(name: str) -> None:
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    assert [line for line in CLOSED if line not in lines] == []


def test_every_service_is_rated() -> None:
    assert {unit.stem for unit in UNITS.glob("*.service")} == set(RATINGS)


@pytest.mark.parametrize(("name", "most"), RATINGS.items())
def test_exposure(name: str, most: float) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd isn't installed, as in the lab's root: run this file on a host that has it")
    command = ["systemd-analyze", "security", "--offline=true", "--json=short", "--no-pager"]
    most_asked = f"--threshold={most * 10:.0f}"
    done = subprocess.run(
        [*command, most_asked, str(UNITS / f"{name}.service")], capture_output=True, text=True, timeout=60, check=False
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd 250")
    exposed = [row["json_field"] for row in json.loads(done.stdout or "[]") if row["set"] is False]
    assert done.returncode == 0, f"{done.stderr}: {', '.join(map(str, exposed))}"


@pytest.mark.parametrize(("name", "directive"), BREAKING)
def test_what_would_break_the_program_is_not_there(name: str, directive: str) -> None:
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    assert not [line for line in lines if line.startswith(f"{directive}=")]
