"""The budget over several calls of the command: as a user at a terminal, with Slurm's commands as stand-ins that know
of one job array, which waits for ever."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PRINTS = {
    "sbatch": "7\n",
    "squeue": "7|0|PENDING|0:00|Resources\n7|1|PENDING|0:00|Resources\n",
    "sinfo": "a100|1:00:00|1:00:00|gpu:a100:4\n",
    "sacct": "",
    "scontrol": "",
}


class Terminal:
    """A user who gives the same command again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._scripts = folder, folder / "scripts"
        self._keys, self._stdin = pty.openpty()
        self._scripts.mkdir()
        (self._scripts / "a.sh").write_text("#!/bin/bash\n#SBATCH --gpus=1 -t 10\nsleep 1\n")
        (folder / "slurmcast.toml").write_text('[paths]\nrun_dir = "/nowhere"\n')
        for name, prints in PRINTS.items():
            (folder / name).write_text(f"#!/bin/sh\necho call >> {folder}/{name}.calls\nprintf '%s' '{prints}'\n")
            (folder / name).chmod(0o755)

    def close(self) -> None:
        os.close(self._keys)
        os.close(self._stdin)

    def label(self, *options: str, types: str = "") -> tuple[dict[str, Any], str]:
        """The command, stopped by Ctrl-C once it waits for Slurm: its JSON, and what it said. ``types``: what the user
        types; with nothing, it must not ask."""
        calls = self._folder / "squeue.calls"
        calls.unlink(missing_ok=True)
        os.write(self._keys, types.encode())
        config = ("--config", str(self._folder / "slurmcast.toml"))
        words = ("-p", "a100", "--json", "--on-interrupt=leave", *options)
        call = subprocess.Popen(
            [sys.executable, "-m", "slurmcast.cli", *config, "label", str(self._scripts), *words],
            env={**os.environ, "PATH": f"{self._folder}:{os.environ['PATH']}"},
            stdin=self._stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        end = time.monotonic() + 30
        while call.poll() is None and time.monotonic() < end:
            if calls.exists() and len(calls.read_text().splitlines()) >= 2:  # one is the look before the rounds
                call.send_signal(signal.SIGINT)
                break
            time.sleep(0.05)
        try:
            out, said = call.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            call.kill()
            pytest.fail(f"it asks: {call.communicate()[1]}")
        return json.loads(out) if out else {}, said


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_a_budget_holds_until_another_is_given(terminal: Terminal) -> None:
    answer, said = terminal.label(types="0.4\n")
    assert answer["budget"]["gpu_hours"] == 0.4 and "Budget in GPU hours" in said
    for options in ((), ("--yes",)):
        answer, said = terminal.label(*options)
        assert answer["budget"] == {"gpu_hours": 0.4, "kwh": None}
        assert "The budget is still 0.4 GPU h; --gpu-hours and --kwh give another." in said
    answer, said = terminal.label("--kwh", "2.5")
    assert answer["budget"] == {"gpu_hours": None, "kwh": 2.5} and "still" not in said
    answer, said = terminal.label()
    assert answer["budget"] == {"gpu_hours": None, "kwh": 2.5} and "still 2.5 kWh" in said


def test_what_goes_on_without_a_budget_asks_for_one(terminal: Terminal) -> None:
    """Nothing is to be submitted at once, but a third run may be needed."""
    answer, _ = terminal.label("--yes")
    assert answer["budget"]["gpu_hours"] == pytest.approx(0.5)  # three runs of ten minutes
    answer, said = terminal.label(types="0.4\n")
    assert answer["budget"]["gpu_hours"] == 0.4 and "Budget in GPU hours" in said
