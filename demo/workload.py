"""What runs in the demo: a history, and a list of new jobs, both drawn from the work table by a seed. Pure."""

from __future__ import annotations

import json
import math
import random
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demo.standin import standin

Work = dict[str, Any]

HERE = Path(__file__).parent
PARTITIONS = ("a100", "a6000")
DEFAULT = "a100"
USERS = ("alice", "bob")
UNSEEN_SHARE = 7
"""Every so-and-so-manyth work never occurs in the history."""
HISTORY_AMOUNTS = 3
MAX_HISTORY_S = 2400.0
MAX_NEW_S = 2700.0


@dataclass(frozen=True)
class DemoJob:
    """One job: what is typed, when, by whom."""

    work: str
    user: str
    at_s: float
    """Emulated seconds after the start."""
    arguments: tuple[str, ...]
    environment: dict[str, str]
    time_limit_min: int
    partition: str | None = None
    """Named on the command line; None: what the arm does."""

    @property
    def name(self) -> str:
        return self.work


def load_works(path: Path = HERE / "work.toml") -> dict[str, Work]:
    """The work table by name, with time and power on each type as the rules in its head give them."""
    with path.open("rb") as file:
        table = tomllib.load(file)
    works = {}
    for work in table["work"]:
        rules = table["class"][work["class"]]
        ratio = work.get("ratio", rules["ratio"])
        power = {
            f"power_w_{name}": gpu["idle_w"] + (gpu["tdp_w"] - gpu["idle_w"]) * rules["load"][name]
            for name, gpu in table["gpu"].items()
        }
        works[work["name"]] = {
            **work,
            **power,
            "seconds_per_unit_a6000": work["seconds_per_unit_a100"] * ratio,
        }
    return works


def gpu_table(path: Path = HERE / "work.toml") -> dict[str, dict[str, Any]]:
    """Data of the GPU types: idle_w, tdp_w, ..."""
    with path.open("rb") as file:
        gpu: dict[str, dict[str, Any]] = tomllib.load(file)["gpu"]
        return gpu


def standin_table(works: dict[str, Work]) -> str:
    """The table as the stand-in reads it: JSON."""
    return json.dumps(works)


def invocation(work: Work, amount: float) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment that ask for that much work."""
    name, text = work["argument"], f"{amount:.10g}"
    if name.startswith("env:"):
        return (), {name[4:]: text}
    if name.startswith("hydra:"):
        return (f"{name[6:]}={text}",), {}
    if name.startswith("position:"):
        return (text,), {}
    return (name, text), {}


def seconds(work: Work, job: DemoJob, gpu_type: str) -> float:
    """Emulated seconds that the job takes there, without noise."""
    arguments = job.arguments
    if work["argument"].startswith("position:"):  # the batch script hands it on as an option
        arguments = (work["seen"], arguments[0])
    return float(standin.seconds_of(work, gpu_type, arguments, job.environment))


def energy_kwh(work: Work, job: DemoJob, gpu_type: str) -> float:
    """Energy of all the job's GPUs there."""
    return seconds(work, job, gpu_type) * float(work["gpus"]) * float(work["power_w_" + gpu_type]) / 3.6e6


def job_of(work: Work, amount: float, at_s: float, user: str, slack: float) -> DemoJob:
    """What ``user`` types for that amount of work, with a time limit of ``slack`` times what it takes by default."""
    arguments, environment = invocation(work, amount)
    draft = DemoJob(work["name"], user, at_s, arguments, environment, 1)
    limit = math.ceil(seconds(work, draft, DEFAULT) * slack / 60)
    return DemoJob(work["name"], user, at_s, arguments, environment, max(limit, 2))


def unseen(works: dict[str, Work]) -> set[str]:
    """Works that never occur in the history."""
    return set(sorted(works)[UNSEEN_SHARE - 1 :: UNSEEN_SHARE])


def history(works: dict[str, Work], seed: int) -> list[DemoJob]:
    """Runs to learn from: each known work with a few amounts, each on both partitions, in random order, all at once."""
    rng = random.Random(f"history {seed}")
    jobs = []
    for name in sorted(set(works) - unseen(works)):
        work = works[name]
        for amount in _spread(work["amounts"][::2], HISTORY_AMOUNTS):
            job = job_of(work, amount, 0.0, rng.choice(USERS), 6.0)
            if seconds(work, job, DEFAULT) <= MAX_HISTORY_S:
                jobs += [replace(job, partition=partition) for partition in PARTITIONS]
    rng.shuffle(jobs)
    return jobs


def _spread(items: list[float], count: int) -> list[float]:
    """At most ``count`` of the items, evenly spread."""
    if len(items) <= count:
        return list(items)
    return [items[round(n * (len(items) - 1) / (count - 1))] for n in range(count)]


def new_jobs(works: dict[str, Work], seed: int, count: int, gpus: int, load: float) -> list[DemoJob]:
    """Jobs that are not in the history: other amounts, and works never seen. Poisson arrivals over the time in which
    ``gpus`` GPUs would do ``1 / load`` times the work."""
    rng = random.Random(f"new {seed}")
    drawn: list[DemoJob] = []
    while len(drawn) < count:
        work = works[rng.choice(sorted(works))]
        amount = rng.choice(work["amounts"][1::2] or work["amounts"])
        job = job_of(work, amount, 0.0, rng.choice(USERS), rng.uniform(1.05, 6.0))
        if seconds(work, job, DEFAULT) <= MAX_NEW_S:
            drawn.append(job)
    mean = [sum(seconds(works[j.work], j, p) for p in PARTITIONS) / 2 * works[j.work]["gpus"] for j in drawn]
    span = sum(mean) / gpus / load
    moments = sorted(rng.uniform(0, span) for _ in drawn)
    return [replace(job, at_s=at) for job, at in zip(drawn, moments, strict=True)]


def bound_kwh(works: dict[str, Work], jobs: list[DemoJob]) -> float:
    """The least possible energy: every job on its better type, as the table has it."""
    return sum(min(energy_kwh(works[j.work], j, p) for p in PARTITIONS) for j in jobs)
