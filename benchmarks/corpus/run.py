"""One run of a corpus program on the clock, and whether others used the machine meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOCK_WAIT_S = 60.0
RUN_LIMIT_S = 120.0


class Failed(Exception):
    """A program ended with an error or took too long."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One run. ``time_s``: of the whole process; ``cpu_s``: of all its threads; see :func:`foreign_share`."""

    time_s: float
    cpu_s: float
    foreign_share: float


def run_once(folder: Path, setting: str, cpus: int) -> Reading:
    """Run ``job.sh`` with the setting's arguments on the last ``cpus`` CPUs. Raises Failed."""
    mine = sorted(os.sched_getaffinity(0))[-cpus:]
    command = ["taskset", "--cpu-list", ",".join(map(str, mine)), "bash", "job.sh", *shlex.split(setting)]
    busy, begun, own = _busy_now(), time.monotonic(), _own_cpu_s()
    code, output, errors = _finish(command, folder, environment(cpus, folder))
    time_s, cpu_s = time.monotonic() - begun, _own_cpu_s() - own
    if code is None:
        raise Failed(f"{folder.name} {setting}: took more than {RUN_LIMIT_S:.0f} s")
    if code:
        raise Failed(f"{folder.name} {setting}: ended with {code}: {errors.decode(errors='replace').strip()[-1000:]}")
    if not output.strip():
        raise Failed(f"{folder.name} {setting}: printed nothing; a training program prints its loss")
    return Reading(time_s, cpu_s, foreign_share(_busy_now() - busy, cpu_s, time_s))


def environment(threads: int, folder: Path) -> dict[str, str]:
    """What a job finds in its environment: this Python first in the path, the thread counts, Slurm's variables."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return counts | {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_JOB_ID": "1",
        "SLURM_CPUS_PER_TASK": str(threads),
    }


def busy_s(stat: str, ticks_per_s: int) -> float:
    """CPU seconds since boot, of all CPUs, that were used or that the hypervisor took (``/proc/stat``, proc(5))."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.partition("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


def foreign_share(busy: float, own: float, wall: float) -> float:
    """The share of one CPU that others used: ``busy`` CPU seconds of all in ``wall`` seconds, less one's ``own``.

    Ticks are sampled, so a quiet machine may read slightly below nothing; that is nothing.
    """
    return max((busy - own) / wall, 0.0)


@contextlib.contextmanager
def exclusive(path: str | None) -> Iterator[bool]:
    """Hold an exclusive lock on the file, if one is named; False where it wasn't free within LOCK_WAIT_S."""
    if not path:
        yield True
        return
    with Path(path).open("a") as file:
        yield _locked(file.fileno())


def _locked(file: int) -> bool:
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)


def _finish(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[int | None, bytes, bytes]:
    """Exit code (None: it took too long), output and errors. Whatever happens, nothing of it is left running."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=RUN_LIMIT_S)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        return None, b"", b""
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _busy_now() -> float:
    return busy_s(Path("/proc/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def _own_cpu_s() -> float:
    """CPU seconds of this process and of all children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
