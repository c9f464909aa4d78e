"""A GPU node without cards: a stand-in for NVIDIA's library, the real prolog, epilog and meter, a clock of its own."""

from __future__ import annotations

import ctypes
import json
import os
import random
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from slurmcast.codec import from_json
from slurmcast.meter.files import Outbox, State
from slurmcast.meter.meter import Clock, Meter, next_look
from slurmcast.meter.nvml import Nvml
from slurmcast.meter.rapl import Rapl
from slurmcast.meter.record import EnergyRecord
from tests.fake_nvml.script import Told, library, script

SLURM = Path(__file__).parents[2] / "slurm"
EPOCH = 1_700_000_000
"""Unix time at the node's time 0."""
UP_S = 500.0
"""How long the node had been up by then."""


@cache
def load_library() -> None:
    """Let nvidia-ml-py find the stand-in: a library that is loaded already is found by its name."""
    ctypes.CDLL(str(library(Path(tempfile.mkdtemp(prefix="fake-nvml-")))))


class NodeClock(Clock):
    def __init__(self, told: Told) -> None:
        self._told, self.boots = told, 0

    def now(self) -> float:
        return self._told.now_s + UP_S

    def wall(self) -> float:
        return self._told.now_s + EPOCH

    def boot_id(self) -> str:
        return f"boot {self.boots}"


class Node:
    """One node. Its time stands still but in :meth:`until`."""

    def __init__(self, folder: Path, gpus: int = 1, name: str = "a100-1", powercap: Path | None = None) -> None:
        """``powercap``: a folder like the kernel's, for a node whose own energy is measured too."""
        load_library()
        self._powercap = powercap
        self.folder, self.name = folder, name
        self.markers = folder / "markers"
        self.markers.mkdir(parents=True)
        self.told = script(folder / "nvml", gpus)
        self.clock = NodeClock(self.told)
        self.outbox = Outbox(folder / "state")
        self.gpus = self.told.gpu
        self.awake = True
        """Whether the meter looks at once when a marker is dropped, as the kernel lets it."""
        self.down_s = (0.0, 0.0)
        """From when to when the meter is dead."""
        self._dead = False
        self._starts: dict[int, int] = {}
        self._chance = random.Random(0)
        self.boot()

    def boot(self) -> None:
        """Start the meter; the one before was killed, with no word."""
        os.environ["FAKE_NVML"] = str(self.folder / "nvml")
        state, rapl = State(self.folder / "state"), self._powercap and Rapl(self._powercap)
        self.meter = Meter(self.markers, state, self.outbox, Nvml(), self.clock, 10.0, rapl)

    def reboot(self) -> None:
        """The node goes down and comes up: what lay in /run is gone, and its clock begins anew."""
        self.clock.boots += 1
        for path in self.markers.iterdir():
            path.unlink()
        self.boot()

    def play(self, *lines: str, **environment: str) -> list[EnergyRecord]:
        """Let happen what the lines say, and return what waits in the outbox then.

        ``[TIME] begin JOB [GPUS]``, ``[TIME] end JOB`` or ``TIME``, in seconds. Fails where prolog or epilog does.
        """
        for line in lines:
            words = line.split()
            if words[0][0].isdigit():
                self.until(float(words.pop(0)))
            if words and words[0] == "begin":
                assert self.begin(int(words[1]), *words[2:], **environment) == 0
            elif words:
                assert self.end(int(words[1])) == 0
        return self.records()

    def until(self, time_s: float, step_s: float = 1.0) -> None:
        """Let the time pass, and the meter step whenever the service would."""
        os.environ["FAKE_NVML"] = str(self.folder / "nvml")
        while self.told.now_s < time_s:
            self.told.now_s = min(next_look(self.told.now_s, step_s, self._chance), time_s)
            self._look()

    def _look(self) -> None:
        if self.down_s[0] <= self.told.now_s < self.down_s[1]:
            self._dead = True
            return
        if self._dead:
            self._dead = False
            self.boot()
        self.meter.step()

    def begin(self, job_id: int, gpus: str = "0", start: int | None = None, **environment: str) -> int:
        """Slurm starts a job here: the prolog's exit status."""
        self._starts[job_id] = int(self.clock.wall()) if start is None else start
        facts = {"SLURM_JOB_NUM_NODES": "1", "CUDA_VISIBLE_DEVICES": gpus, **environment}
        return self._drop("prolog", job_id, gpus, facts)

    def end(self, job_id: int) -> int:
        """The job is over here: the epilog's exit status."""
        return self._drop("epilog", job_id, "0", {})

    def _drop(self, what: str, job_id: int, gpus: str, environment: dict[str, str]) -> int:
        facts = {
            "SLURM_JOB_ID": str(job_id), "SLURM_JOB_START_TIME": str(self._starts[job_id]), "SLURM_JOB_GPUS": gpus,
            "SLURM_CLUSTER_NAME": "test", "SLURMD_NODENAME": self.name, "SLURMCAST_METER_MARKERS": str(self.markers),
        }  # fmt: skip
        path = SLURM / f"{what}.d/50-slurmcast-meter.sh"
        done = subprocess.run([path], env=facts | environment, capture_output=True, check=False, timeout=10)
        assert done.stdout == done.stderr == b""
        suffix = "begin" if what == "prolog" else "end"
        dropped = self.markers / f"{job_id}.{self._starts[job_id]}.{suffix}"
        if dropped.exists():
            os.utime(dropped, (self.clock.wall(), self.clock.wall()))
        if self.awake:
            self._look()
        return done.returncode

    def records(self) -> list[EnergyRecord]:
        """What waits in the outbox, by job and start."""
        found = [from_json(EnergyRecord, json.loads(path.read_bytes())) for path in self.outbox.folder.iterdir()]
        return sorted(found, key=lambda record: (record.job_id, record.start_time))

    def record(self) -> EnergyRecord:
        """The only one."""
        (record,) = self.records()
        return record

    def joules(self, from_s: float, to_s: float, *gpus: int) -> float:
        """The true energy of those GPUs."""
        return sum(self.gpus[gpu].joules(from_s, to_s) for gpu in gpus or (0,))
