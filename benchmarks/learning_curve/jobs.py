"""What runs: known programs, from the middle on new ones too, near the end on slower GPUs. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from demo import workload
from demo.workload import DemoJob, Work

NEW_EVERY = 4
"""Every so-and-so-manyth program is new from the middle on."""
MAX_S = 1500.0
"""The longest job, in emulated seconds."""
SLOWER = 2.0
"""What a job takes on an A6000 near the end, in units of what it took before."""


def draw(works: Mapping[str, Work], count: int, seed: int, gpus: int, load: float) -> list[DemoJob]:
    """``count`` jobs in the order of their submission, at random moments of the time in which ``gpus`` GPUs would do
    ``1 / load`` times the work. Partitions are named, each as often; each program is one user's."""
    rng = random.Random(f"learning {seed}")
    names = sorted(works)
    users = {name: rng.choice(workload.USERS) for name in names}
    new = set(names[NEW_EVERY - 1 :: NEW_EVERY])
    old = [name for name in names if name not in new]
    drawn: list[DemoJob] = []
    while len(drawn) < count:
        late = len(drawn) >= count // 2
        work = works[rng.choice(sorted(new) if late and rng.random() < 0.5 else old)]
        job = workload.job_of(work, rng.choice(work["amounts"]), 0.0, users[work["name"]], rng.uniform(4.0, 8.0))
        partition = rng.choice(workload.PARTITIONS)
        if workload.seconds(work, job, partition) <= MAX_S:
            drawn.append(replace(job, partition=partition))
    busy = sum(workload.seconds(works[job.work], job, str(job.partition)) * works[job.work]["gpus"] for job in drawn)
    moments = sorted(rng.uniform(0, busy / gpus / load) for _ in drawn)
    return [replace(job, at_s=at) for job, at in zip(drawn, moments, strict=True)]


def slower(works: Mapping[str, Work]) -> dict[str, Work]:
    """The table after an update that made the A6000s slower."""
    name = "seconds_per_unit_a6000"
    return {key: {**work, name: work[name] * SLOWER} for key, work in works.items()}


def new_programs(jobs: Sequence[DemoJob]) -> set[str]:
    """Programs that don't occur in the first half."""
    half = len(jobs) // 2
    return {job.work for job in jobs[half:]} - {job.work for job in jobs[:half]}
