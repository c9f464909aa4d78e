"""What the stand-in library answers: a file that it and the test both map, laid out as in ``fake_nvml.c``."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from ctypes import c_char, c_double, c_uint32
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).parent
GPUS, POINTS, FAULTS, NAME = 8, 4096, 8, 96
POWER, COUNTER, REST = 1, 2, 4
ALL = POWER | COUNTER | REST
GPU_IS_LOST, UNKNOWN = 15, 999
FOREVER = 1e18


class Point(ctypes.Structure):
    _fields_ = (("at_s", c_double), ("power_w", c_double), ("memory_bytes", c_double), ("utilisation", c_double))


class Fault(ctypes.Structure):
    _fields_ = (("from_s", c_double), ("to_s", c_double), ("code", c_uint32), ("calls", c_uint32))


class Card(ctypes.Structure):
    _fields_ = (
        ("uuid", c_char * NAME), ("instance", c_char * NAME),
        ("minor", c_uint32), ("mig", c_uint32), ("counts", c_uint32), ("points", c_uint32),
        ("window_s", c_double), ("period_s", c_double), ("counter_j", c_double), ("wrap_j", c_double),
        ("resets_s", c_double * FAULTS), ("faults", Fault * FAULTS), ("curve", Point * POINTS),
    )  # fmt: skip

    def draw(self, curve: Sequence[tuple[float, ...]]) -> None:
        """Power over time: points of (s, W[, bytes used[, utilisation]]), straight lines between them; two points of
        the same time are a step."""
        for number, point in enumerate(curve):
            self.curve[number] = Point(*point)
        self.points = len(curve)

    def fail(self, from_s: float, to_s: float = FOREVER, code: int = GPU_IS_LOST, calls: int = ALL) -> None:
        """Let ``calls`` fail with an NVML code in that span."""
        self.faults[next(n for n in range(FAULTS) if not self.faults[n].calls)] = Fault(from_s, to_s, code, calls)

    def joules(self, from_s: float, to_s: float) -> float:
        """The true energy of a span, by the same lines, reckoned apart from the library."""
        curve = [(p.at_s, p.power_w) for p in self.curve[: self.points]]
        curve.append((max(to_s, curve[-1][0]), curve[-1][1]))
        total = 0.0
        for (t0, p0), (t1, p1) in pairwise(curve):
            low, high = max(t0, from_s), min(t1, to_s)
            if high > low:
                middle = p0 + (p1 - p0) * ((low + high) / 2 - t0) / (t1 - t0)
                total += middle * (high - low)
        return total


class Told(ctypes.Structure):
    _fields_ = (
        ("now_s", c_double), ("origin_s", c_double), ("unloaded_s", c_double * 2),
        ("gpus", c_uint32), ("calls", c_uint32), ("gpu", Card * GPUS),
    )  # fmt: skip


def library(folder: Path) -> Path:
    """The stand-in as ``libnvidia-ml.so.1``: built into ``folder``; without a compiler (in the lab's root), the one
    that slurm/lab/setup.sh built."""
    if shutil.which("cc") is None:
        return Path(sys.prefix) / "lib/fake_nvml/libnvidia-ml.so.1"
    path = folder / "libnvidia-ml.so.1"
    subprocess.run([FOLDER / "build.sh", path], check=True)
    return path


def script(path: Path, cards: int, real_time: bool = False) -> Told:
    """A new script of that many cards that count and draw 100 W, at time 0; ``real_time``: time runs by itself."""
    with path.open("w+b") as file:
        file.truncate(ctypes.sizeof(Told))
        told = Told.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Told)))
    told.gpus = cards
    for number in range(cards):
        card = told.gpu[number]
        card.uuid = f"GPU-{number:08x}-0000-0000-0000-000000000000".encode()
        card.minor, card.counts, card.counter_j = number, 1, 12345.0
        card.draw([(0, 100.0)])
    if real_time:
        told.now_s, told.origin_s = -1.0, time.clock_gettime(time.CLOCK_BOOTTIME)
    return told
