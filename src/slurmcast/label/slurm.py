"""Slurm for an ordinary user: sbatch, squeue, sacct, scancel and sinfo (tried on Slurm 26.05)."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from slurmcast.label.words import Batch, Place
from slurmcast.model import GpuRequest
from slurmcast.script.gres import parse_gpu_request
from slurmcast.script.options import time_limit_s
from slurmcast.script.reader import OPT_IN, OPT_OUT

TIMEOUT_S = 300
"""For sbatch, which itself tries for about two minutes while slurmctld is busy; for the others more than enough."""
MARK = "slurmcast-label:"
"""What a job's comment has before the id of its batch."""
_WISH = re.compile(rf"(?<![^\s,;])(?:{OPT_OUT}|{OPT_IN})(?![^\s,;])")
_KEPT = frozenset({"SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_WCKEY", "SBATCH_RESERVATION"})
"""Of sbatch's variables those that say who pays; the others would overrule what the scripts themselves say."""
_WHOLE_NODES = re.compile(r"^PartitionName=(\S+) .*\b(?:OverSubscribe=EXCLUSIVE|Exclusive=NODE)\b", re.MULTILINE)
"""Partitions that give whole nodes, as Slurm up to 25.11 says it, and as 26.05 does."""
_UNSURE = re.compile(r"contact|timed out|zero bytes|communication|standby|backup", re.IGNORECASE)
"""What sbatch says where slurmctld may or may not have heard it."""
_LATER = re.compile(r"temporarily|try again", re.IGNORECASE)
_LIMIT = re.compile(r"job submit limit", re.IGNORECASE)


_UNDER_WAY = frozenset({"PENDING", "RUNNING", "SUSPENDED", "RESIZING"})


class SlurmError(Exception):
    """Slurm refused or doesn't answer; the message is its own."""


class Unsure(SlurmError):
    """Whether Slurm took the job isn't known."""


class Later(SlurmError):
    """Slurm didn't take the job, but may do so later."""


class Limit(Later):
    """A limit keeps Slurm from taking the job: on the number of jobs, or on this one's size."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A run in Slurm's queue."""

    state: str
    reason: str
    began: bool
    """Whether it has run for a second at least."""


@dataclass(frozen=True, slots=True)
class Accounted:
    """A run in Slurm's accounting, once more for each time that it was queued again. Times in Unix seconds, 0: none."""

    job_id: int
    state: str
    start: int
    elapsed_s: float
    gpus: int
    exit_code: str
    nodes: str


Task = tuple[int, int]
"""A run's array and its place in it."""
REST = -1
"""The place of all runs of an array that never got a record of their own: they were cancelled before they started."""


def command(batch: Batch, options: Sequence[str], log: Path, comment: str) -> list[str]:
    """How sbatch is called. Of the script's own ``comment`` stays what isn't a wish about being moved or left alone: a
    run stays where it is, being sent to one partition, and is to be learned from."""
    marked = f"{_WISH.sub('', comment).strip()} {MARK}{batch.id}".strip()
    return [
        "sbatch", "--parsable", f"--partition={batch.partition}", f"--array=0-{batch.runs - 1}%1", "--no-requeue",
        f"--comment={marked}", f"--output={log}", f"--error={log}", *options, batch.script, *batch.arguments,
    ]  # fmt: skip


def submit(batch: Batch, options: Sequence[str], log: Path, comment: str, lock: IO[bytes]) -> int:
    """Submit ``batch`` as a job array in the script's folder, one run at a time; its job id.

    Slurm isn't to queue a run again by itself: that would be beyond the budget. sbatch inherits ``lock``, and isn't
    reached by the terminal's Ctrl-C.
    Raises :class:`SlurmError`: :class:`Unsure`, :class:`Later` or :class:`Limit` where it isn't final.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SBATCH_") or name in _KEPT}
    done = _run(command(batch, options, log, comment), environment, Path(batch.script).parent, lock)
    if done.returncode != 0:
        problem = _problem(done.stderr)
        kinds = ((_UNSURE, Unsure), (_LATER, Later), (_LIMIT, Limit))
        raise next((kind for pattern, kind in kinds if pattern.search(problem)), SlurmError)(problem)
    told = re.search(r"^(\d+)(?:;|$)", done.stdout, re.MULTILINE)
    if told is None:
        raise Unsure(f"sbatch gave no job id but {done.stdout[:80]!r}")
    return int(told[1])


def find(batches: Iterable[Batch], since: float) -> dict[str, int]:
    """The job ids of those ``batches`` that Slurm knows by their mark, submitted after ``since`` (Unix seconds)."""
    wanted = {batch.id for batch in batches}
    lines = _output("squeue", "--me", "-h", "-t", "all", "-o", "%F|%k").splitlines()
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))
    lines += _output("sacct", "-X", "-n", "-P", "-S", start, "-o", "JobID,Comment,SubmitLine").splitlines()
    found = {}
    for line in lines:
        job_id, _, text = line.partition("|")
        for mark in re.findall(rf"{MARK}(\w+)", text):
            if mark in wanted and (base := job_id.partition("_")[0]).isdigit():
                found[mark] = int(base)
    return found


def queued() -> dict[Task, Queued]:
    """This user's array runs in the queue, and those that have just ended; :data:`REST` where it was cancelled."""
    found = {}
    for line in _output("squeue", "--me", "-h", "-r", "-t", "all", "-o", "%F|%K|%T|%M|%r").splitlines():
        array, place, state, used, reason = line.split("|", 4)
        if array.isdigit() and (place.isdigit() or state == "CANCELLED"):
            found[int(array), int(place) if place.isdigit() else REST] = Queued(state, reason, used != "0:00")
    return found


def accounted(arrays: Mapping[int, float]) -> dict[Task, list[Accounted]]:
    """What the accounting has about the ended runs of job arrays, in order of their start; :data:`REST` as above.
    ``arrays``: their ids, each with the time (Unix seconds) before which that id was another array's."""
    found: dict[Task, list[Accounted]] = {}
    fields = "JobID,JobIDRaw,State,Submit,Start,ElapsedRaw,AllocTRES,ExitCode,NodeList"
    every = list(arrays)
    for first in range(0, len(every), 200):
        ids = ",".join(map(str, every[first : first + 200]))
        for line in _output("sacct", "-X", "-D", "-n", "-P", "-j", ids, "-o", fields).splitlines():
            name, raw, state, submit, start, elapsed, tres, code, nodes = line.split("|")
            array, _, place = name.partition("_")
            if _number(submit) < arrays.get(int(array), math.inf):
                continue
            state = state.split()[0]
            if state == "CANCELLED" if not place.isdigit() else state not in _UNDER_WAY:
                entry = Accounted(
                    job_id=int(raw),
                    state=state,
                    start=_number(start),
                    elapsed_s=float(_number(elapsed)),
                    gpus=_gpus(tres),
                    exit_code=code,
                    nodes="" if nodes == "None assigned" else nodes,
                )
                found.setdefault((int(array), int(place) if place.isdigit() else REST), []).append(entry)
    for entries in found.values():
        entries.sort(key=lambda entry: entry.start)
    return found


def cancel(arrays: Iterable[int], pending_only: bool = False) -> None:
    """Cancel job arrays, or of each what hasn't started; one that is over by now doesn't matter."""
    if ids := [str(array) for array in arrays]:
        _run(["scancel", "--quiet", *(["--state=PENDING"] if pending_only else []), *ids], os.environ)


def check_accounting() -> None:
    """Raise :class:`SlurmError` where the accounting doesn't answer, without which no run would ever be over."""
    _output("sacct", "-X", "-n", "-S", "now-1minutes")


def partitions() -> dict[str, Place]:
    """The partitions that this user may see, by name; what their GPUs draw isn't known here."""
    found: dict[str, Place] = {}
    whole = set(_WHOLE_NODES.findall(_output("scontrol", "show", "partition", "--oneliner")))
    for line in _output("sinfo", "-h", "-o", "%R|%L|%l|%G").splitlines():
        name, default, longest, gres = line.split("|", 3)
        request = parse_gpu_request({"tres_per_node": gres}) or GpuRequest()
        types = frozenset((request.type or "").split(",")) - {""}
        limit_s = time_limit_s(default) or time_limit_s(longest)
        here = Place(name, types, request.per_node or 0, limit_s, name in whole)
        known = found.get(name, here)
        found[name] = replace(
            here, types=known.types | types, gpus_per_node=max(known.gpus_per_node, here.gpus_per_node)
        )
    return found


def _gpus(tres: str) -> int:
    """GPUs in a list such as ``cpu=4,gres/gpu:a100=2,gres/gpu=2``."""
    found = re.search(r"gres/gpu=(\d+)", tres)
    return int(found[1]) if found else sum(map(int, re.findall(r"gres/gpu:[^=,]+=(\d+)", tres)))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _output(*command: str) -> str:
    done = _run(command, {**os.environ, "SLURM_TIME_FORMAT": "%s"})
    if done.returncode != 0:
        raise SlurmError(f"{command[0]}: {_problem(done.stderr)}")
    return done.stdout


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None, lock: IO[bytes] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=environment,
            cwd=folder,
            pass_fds=[lock.fileno()] if lock else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if error.filename == command[0]:
            raise Later(f"there is no {command[0]} here; run this where jobs are submitted") from None
        raise SlurmError(f"{error.filename}: {error.strerror}") from None
    except OSError as error:  # too many arguments, for example
        raise SlurmError(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Unsure(f"{command[0]} timed out after {TIMEOUT_S} s") from None


def _problem(stderr: str) -> str:
    """The last line that a command of Slurm's has complained with."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return lines[-1].partition("error: ")[2] or lines[-1] if lines else "it failed without a word"
