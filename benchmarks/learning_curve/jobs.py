"""What runs: known programs, later new ones too, and at last on slower GPUs. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from demo import workload
from demo.workload import DemoJob, Work

NEW_EVERY = 4
"""One in so many programs is new, drawn by lot, from the job at :func:`new_from` on."""
MAX_S = 1500.0
"""The longest job, in emulated seconds."""
SLOWER = 2.0
"""What a job takes on an A6000 from the job at :func:`slow_from` on, in units of what it took before."""


def draw(works: Mapping[str, Work], count: int, seed: int, gpus: int, load: float) -> list[DemoJob]:
    """``count`` jobs in the order of their submission, at random moments of the time in which ``gpus`` GPUs would do
    ``1 / load`` times the work. Partitions are named, each as often; each program is one user's."""
    rng = random.Random(f"learning {seed}")
    names = sorted(works)
    users = {name: rng.choice(workload.USERS) for name in names}
    new = set(rng.sample(names, len(names) // NEW_EVERY))
    old = [name for name in names if name not in new]
    drawn: list[DemoJob] = []
    while len(drawn) < count:
        late = len(drawn) >= new_from(count)
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


def new_from(count: int) -> int:
    """From this of ``count`` jobs on, half of them are of new programs."""
    return count * 2 // 5


def slow_from(count: int) -> int:
    """When this one is submitted, the A6000s become slower."""
    return count * 3 // 5


def new_programs(jobs: Sequence[DemoJob]) -> set[str]:
    """Programs that nobody ran before :func:`new_from`."""
    first = new_from(len(jobs))
    return {job.work for job in jobs[first:]} - {job.work for job in jobs[:first]}
