"""Real munged processes of a test's own, one for each host that it plays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY = os.urandom(128)
"""All of them have the same, as on a cluster."""


@dataclass
class Munged:
    """One munged, with its files in ``folder``."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        return str(self.folder / "socket")

    def start(self) -> None:
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={self.folder / file}" for option, file in files.items()]
        # --force: the socket of one that was killed is in the way
        self.process = subprocess.Popen(["munged", "--foreground", "--force", *options], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while subprocess.run(["munge", "-n", f"--socket={self.socket}"], capture_output=True, check=False).returncode:
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(20)


@contextmanager
def munged_of(host: str) -> Iterator[Munged]:
    """A munged that runs, ended at the end."""
    if not shutil.which("munged"):
        pytest.fail("munge is not installed: apt-get install munge (or run `make unit`)")
    folder = Path("/run") / f"{host}-{os.getpid()}"
    folder.mkdir(mode=0o755)
    (folder / "key").touch(0o600)
    (folder / "key").write_bytes(KEY)
    munged = Munged(folder)
    try:
        munged.start()
        yield munged
    finally:
        if munged.process is not None and munged.process.poll() is None:
            munged.end(signal.SIGKILL)
        shutil.rmtree(folder)
