"""Measured runs as batch scripts with their times and energies: our corpus, and two public traces.

Public traces are read where ``SLURMCAST_DATA`` points (default: ``shared/data`` beside the checkout): Zeus (NSDI '23),
rows at each card's highest power limit, time and energy of one epoch; Gavel (OSDI '20), time of 1,000 steps on 1 to 8
GPUs. Both come without code: their scripts are templates of ours, one per workload. Everything that a model sees is
what slurmcast's script reader finds in the script and the program that it launches.
"""

from __future__ import annotations

import ast
import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from corpus import table
from numpy.typing import NDArray

from predict import templates
from slurmcast.model import Reading, Submission
from slurmcast.probe import Example
from slurmcast.script.reader import read
from slurmcast.script.sources import Found, Missing, SourceReader

DATA = Path(os.environ.get("SLURMCAST_DATA", Path(__file__).parents[3] / "shared" / "data"))
ZEUS_TYPES = ("a40", "p100", "rtx6000", "v100")
GAVEL_TYPES = ("k80", "p100", "v100")
GAVEL_STEPS = 1000


@dataclass(frozen=True)
class Run:
    """All runs of one setting of a program on one GPU type."""

    program: str
    """The workload: what is left out together in the ``program`` split."""
    reading: Reading
    """What the script reader found; ``reading.key`` is the setting."""
    gpu_type: str
    gpus: int
    times_s: tuple[float, ...]
    energy_kwh: float | None
    handmade: Mapping[str, float | str]
    """What a person would write down of the job: workload, logarithms of its numbers, optimizer."""

    @property
    def time_s(self) -> float:
        """Geometric mean over the repeats."""
        return float(np.exp(np.mean(np.log(self.times_s))))

    def example(self, vector: NDArray[np.float32]) -> Example:
        """The run as what a probe learns from."""
        return Example(
            key=self.reading.key,
            vector=vector,
            numbers=self.reading.numbers,
            gpus=self.gpus,
            partition=self.gpu_type,
            gpu_type=self.gpu_type,
            time_s=self.time_s,
            energy_kwh=self.energy_kwh,
        )


class DataMissing(Exception):
    """The measurements aren't on this machine; the message says which."""


def corpus() -> list[Run]:
    """The settings in ``benchmarks/corpus`` that were measured on one CPU and on two, of programs with enough of them:
    the two runs of each work that agree best, as it is accepted by them."""
    sources: dict[Path, dict[str, str]] = {}
    found = []
    for row in table.measured_everywhere():
        if row.folder not in sources:
            paths = (path for path in row.folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
            sources[row.folder] = {str(path.relative_to(row.folder)): path.read_text() for path in paths}
        reading = _read(row.script, sources[row.folder], row.argv[1:])
        handmade = {name: float(np.log(value)) for name, value in reading.numbers.items()}
        if row.accepted:
            found.append(
                Run(
                    program=row.program,
                    reading=reading,
                    gpu_type=row.partition,
                    gpus=1,
                    times_s=table.closest(row.times_s),
                    energy_kwh=None,
                    handmade={"program": row.program, **handmade},
                )
            )
    if not found:
        raise DataMissing(f"{table.MEASURED} of the corpus has no program with enough settings: make corpus")
    return found


def zeus() -> list[Run]:
    """The trace of Zeus. Raises :class:`DataMissing`."""
    found = []
    for gpu_type in ZEUS_TYPES:
        table = list(csv.DictReader(_lines(DATA / "zeus" / f"summary_power_{gpu_type}.csv")))
        most = max(int(row["power_limit"]) for row in table)
        found += [_zeus_run(row, gpu_type) for row in table if int(row["power_limit"]) == most]
    return found


def _zeus_run(row: Mapping[str, str], gpu_type: str) -> Run:
    program = f"{row['dataset']} {row['network']}"
    name = program.replace(" ", "_").replace("-", "_")
    arguments = f"--epochs 1 --batch-size {row['batch_size']} --optimizer {row['optimizer']}"
    body = templates.program(templates.ZEUS[program], templates.OPTIMIZER)
    time_s = float(row["time_per_epoch"])
    return Run(
        program=program,
        reading=_read(templates.job(name, 1, arguments), {f"train_{name}.py": body}),
        gpu_type=gpu_type,
        gpus=1,
        times_s=(time_s,),
        energy_kwh=time_s * float(row["average_power"]) / 3.6e6,
        handmade={
            "program": program,
            "batch": float(np.log(int(row["batch_size"]))),
            "optimizer": row["optimizer"],
        },
    )


def gavel() -> list[Run]:
    """The throughputs of Gavel, jobs that ran alone. Raises :class:`DataMissing`."""
    table = json.loads("".join(_lines(DATA / "gavel" / "simulation_throughputs.json")))
    found = []
    for gpu_type in GAVEL_TYPES:
        for job, entry in table[gpu_type].items():
            workload, gpus = ast.literal_eval(job)
            if entry["null"] > 0:
                found.append(_gavel_run(workload, gpus, gpu_type, GAVEL_STEPS / entry["null"]))
    return found


def _gavel_run(workload: str, gpus: int, gpu_type: str, time_s: float) -> Run:
    match = re.fullmatch(r"(\S+)(?: \(batch size (\d+)\))?", workload)
    assert match
    program, batch = match[1], match[2]
    arguments = f"--steps {GAVEL_STEPS}" + (f" --batch-size {batch}" if batch else "")
    body = templates.program(templates.GAVEL[program], templates.STEPS)
    name = program.lower().replace("-", "")
    return Run(
        program=program,
        reading=_read(templates.job(name, gpus, arguments), {f"train_{name}.py": body}),
        gpu_type=gpu_type,
        gpus=gpus,
        times_s=(time_s,),
        energy_kwh=None,
        handmade={"program": program, "batch": float(np.log(int(batch or 1))), "gpus": float(np.log(gpus))},
    )


def _read(script: str, sources: Mapping[str, str], arguments: Sequence[str] = ()) -> Reading:
    data = script.encode()
    submission = Submission(
        uid=0,
        user="",
        name="job",
        submit_time=0,
        script=data,
        script_size=len(data),
        work_dir="/work",
        argv=("job.sh", *arguments),
    )
    return read(submission, _from(sources))


def _from(sources: Mapping[str, str]) -> SourceReader:
    """A reader of sources that takes them from ``sources``, by file name."""

    def reader(candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:  # noqa: ARG001
        for candidate in candidates:
            text = sources.get(candidate.removeprefix("./").removeprefix(f"{work_dir}/"))
            if text is not None:
                return Found(f"{work_dir}/{candidate}", text.encode())
        return Missing("no such file")

    return reader


def _lines(path: Path) -> Iterator[str]:
    try:
        yield from path.read_text().splitlines()
    except FileNotFoundError:
        raise DataMissing(f"{path} is absent; SLURMCAST_DATA names the folder that holds zeus/ and gavel/") from None


LOADERS: Mapping[str, Callable[[], list[Run]]] = {"corpus": corpus, "zeus": zeus, "gavel": gavel}
