"""The measured corpus as a table: training programs, their settings and how long each run took.

A program is a folder: ``job.sh`` (a batch script that passes its arguments on to the training code), the sources, and
``settings``, one line of arguments each, the smallest first and the largest last. A work is one program with one
setting on one partition; it is accepted once two of its runs agree.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
"""The corpus: a folder with ``programs/``, ``measured.csv`` and ``machine.json``."""
MEASURED = "measured.csv"
PARTITIONS: Mapping[str, int] = {"one": 1, "two": 2}
"""The settings that play partitions: how many CPUs, and threads, a job gets there."""
MIN_SETTINGS = 6
"""A program with fewer measured settings is no part of the table."""
AGREEMENT = 0.10
"""Two runs agree when they differ by less than this share of their mean (the paper, section 3)."""


@dataclass(frozen=True, slots=True)
class Program:
    """A training program. ``digest``: of its script and sources; another digest is another program."""

    name: str
    folder: Path
    script: str
    settings: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Work:
    """What is measured: a program with one line of arguments on a partition."""

    program: str
    setting: str
    partition: str
    digest: str


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. ``time_s``: of the whole process; ``cpu_s``: of all its threads; ``foreign_share``: CPU time
    that others used meanwhile, over ``time_s``."""

    work: Work
    time_s: float
    cpu_s: float
    foreign_share: float
    at: str


@dataclass(frozen=True, slots=True)
class Row:
    """A measured work: what the script reader needs, and what came out.

    ``argv``: as Slurm has it, the script first. ``time_s``: the mean of the two runs that agree best, or the median of
    all where none agree.
    """

    program: str
    setting: str
    partition: str
    folder: Path
    script: str
    argv: tuple[str, ...]
    times_s: tuple[float, ...]
    accepted: bool
    time_s: float


def programs(corpus: Path = HERE) -> list[Program]:
    """All programs, by name; a folder without a ``job.sh`` (caches of one that has gone) is none."""
    return [_program(path.parent) for path in sorted((corpus / "programs").glob("*/job.sh"))]


def works(found: Iterable[Program]) -> Iterator[Work]:
    """Every program with every setting on every partition."""
    for program, partition in itertools.product(found, PARTITIONS):
        for setting in program.settings:
            yield Work(program.name, setting, partition, program.digest)


def rows(corpus: Path = HERE) -> list[Row]:
    """The works that were measured as they are now, at least two runs each; in the programs' and settings' order."""
    times = times_of(read_runs(corpus))
    found = []
    for program in programs(corpus):
        for work in works([program]):
            measured_s = times.get(work, [])
            if len(measured_s) > 1:
                found.append(_row(program, work, measured_s))
    return found


def measured_everywhere(corpus: Path = HERE) -> list[Row]:
    """The rows of settings that were measured on all partitions, of programs with :data:`MIN_SETTINGS` of these."""
    found = rows(corpus)
    partitions = Counter((row.program, row.setting) for row in found)
    found = [row for row in found if partitions[row.program, row.setting] == len(PARTITIONS)]
    measured = Counter(row.program for row in found)
    return [row for row in found if measured[row.program] >= MIN_SETTINGS * len(PARTITIONS)]


def read_runs(corpus: Path = HERE) -> list[Run]:
    """The measured runs, in the order in which they were made; none where there is no file."""
    if not (corpus / MEASURED).exists():
        return []
    with (corpus / MEASURED).open(newline="") as file:
        return [
            Run(
                Work(line["program"], line["setting"], line["partition"], line["digest"]),
                float(line["time_s"]),
                float(line["cpu_s"]),
                float(line["foreign_share"]),
                line["at"],
            )
            for line in csv.DictReader(file)
        ]


def times_of(runs: Iterable[Run]) -> dict[Work, list[float]]:
    """The times of each work, in seconds, in the order of the runs."""
    times: dict[Work, list[float]] = {}
    for run in runs:
        times.setdefault(run.work, []).append(run.time_s)
    return times


def difference(a: float, b: float) -> float:
    """How far two times differ, as a share of their mean."""
    return abs(a - b) / ((a + b) / 2)


def closest(times: Sequence[float]) -> tuple[float, float]:
    """The two of at least two times that differ least."""
    ordered = sorted(times)
    return min(itertools.pairwise(ordered), key=lambda pair: difference(*pair))


def accepted(times: Sequence[float]) -> bool:
    """Whether two of the times agree."""
    return len(times) > 1 and difference(*closest(times)) < AGREEMENT


def _program(folder: Path) -> Program:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "settings" and path.parent.name != "__pycache__":
            data = path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(data)}\0".encode() + data)
    lines = (" ".join(line.split()) for line in (folder / "settings").read_text().splitlines())
    settings = tuple(line for line in lines if line)
    return Program(folder.name, folder, (folder / "job.sh").read_text(), settings, digest.hexdigest()[:12])


def _row(program: Program, work: Work, times: Sequence[float]) -> Row:
    agreed = accepted(times)
    return Row(
        program=program.name,
        setting=work.setting,
        partition=work.partition,
        folder=program.folder,
        script=program.script,
        argv=("job.sh", *shlex.split(work.setting)),
        times_s=tuple(times),
        accepted=agreed,
        time_s=statistics.mean(closest(times)) if agreed else statistics.median(times),
    )
