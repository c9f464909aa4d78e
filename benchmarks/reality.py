"""The same jobs on a real Slurm with the real hook, daemon and agent, and in the simulator with Slurm's executor.

Runs in the lab: ``make bench-reality``. Jobs sleep for a time that depends on the partition; nothing has been learned,
so that estimates come from the time limits, and the simulator is given those that the agent had. The last line is JSON.

JOBS (environment): how many, default 60. SEED: of the draw, default 1.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from options import parser

from slurmcast import config
from slurmcast.client import Client, ClientError
from slurmcast.policy.registry import named
from slurmcast.simulate import executors
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.workload import Cluster, Schedule, Workload

LAB = Path(__file__).parents[1] / "slurm" / "lab"
PARTITIONS = ("a100", "a6000")
EVERY_S = 1.0
"""Mean time between two submissions; the jobs then come about half as fast again as they can be worked off."""
WITHIN_S = 400.0
DELAYS = {"simulator": (0.0, 0.0), "with delays": (1.0, 1.0), "slow": (3.0, 3.0)}
"""Seconds that a decision takes, and that a GPU idles between two jobs: none, what came closest in one run of the lab,
and more than a busy machine should take."""
SCRIPT = """#!/bin/bash
# {}: no other job has this name or script, so that no estimate changes when one has ended
[ $SLURM_JOB_PARTITION = a100 ] && exec sleep {}
exec sleep {}
"""


@dataclass(frozen=True)
class SleepJob:
    """A job that sleeps."""

    at_s: float
    gpus: int
    sleep_s: tuple[int, int]
    """On each partition."""
    limit_min: int


@dataclass(frozen=True)
class Run:
    """How a job went on the real Slurm. Times are Unix seconds."""

    job_id: int
    submit_s: int
    start_s: int
    end_s: int
    partition: str
    estimates: dict[str, dict[str, Any]]
    """By partition, as ``slurmcast explain`` has them."""


def draw(count: int, seed: int) -> list[SleepJob]:
    """Jobs of 3 to 20 s whose limits are some 12 to 60 times what they take: limits are whole minutes."""
    rng, at_s, jobs = random.Random(seed), 0.0, []
    for _ in range(count):
        at_s += rng.expovariate(1 / EVERY_S)
        base = rng.uniform(3, 12)
        slow = base * rng.uniform(1.2, 1.8)
        limit = math.ceil(slow * rng.uniform(12, 36) / 60)
        jobs.append(SleepJob(at_s, rng.choice((1, 1, 2)), (round(base), round(slow)), limit))
    return jobs


def perform(jobs: Sequence[SleepJob]) -> list[Run]:
    """Submit the jobs at their times to the running services, and wait until all have ended."""
    begin, ids = time.monotonic(), []
    for number, job in enumerate(jobs):
        time.sleep(max(0.0, begin + job.at_s - time.monotonic()))
        script = SCRIPT.format(number, *job.sleep_s)
        command = [
            "sbatch",
            "--parsable",
            "-J",
            f"sleep-{number}",
            "-o",
            "/dev/null",
            f"--gres=gpu:{job.gpus}",
            f"-t{job.limit_min}",
        ]
        done = ["runuser", "-u", "alice", "--", *command]
        ids.append(int(subprocess.run(done, input=script, capture_output=True, text=True, check=True, cwd="/").stdout))
    records = _await(lambda: _accounted(ids), f"not all of the {len(ids)} jobs have ended", WITHIN_S)
    client = Client(config.load())
    return [
        Run(
            job_id,
            *records[job_id],
            {e["partition"]: e for e in client.request("GET", f"/v1/explain/{job_id}")["estimates"]},
        )
        for job_id in ids
    ]


def _accounted(ids: Sequence[int]) -> dict[int, tuple[int, int, int, str]] | None:
    """Submission, start, end and partition of each job, None as long as one hasn't ended."""
    command = ["sacct", "-n", "-P", "-X", "-j", ",".join(map(str, ids)), "-o", "JobID,Submit,Start,End,Partition,State"]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "SLURM_TIME_FORMAT": "%s"}
    ).stdout
    rows = [line.split("|") for line in out.splitlines()]
    if len(rows) < len(ids) or any(row[5] != "COMPLETED" for row in rows):
        return None
    return {int(row[0]): (int(row[1]), int(row[2]), int(row[3]), row[4]) for row in rows}


def _await(check: Callable[[], Any], problem: str, within_s: float) -> Any:
    end = time.monotonic() + within_s
    while not (answer := check()):
        if time.monotonic() > end:
            raise SystemExit(f"{problem} after {within_s:g} s")
        time.sleep(0.5)
    return answer


def workload(jobs: Sequence[SleepJob], runs: Sequence[Run]) -> Workload:
    """The jobs as the simulator takes them: submitted when they really were, running as long as they mean to sleep."""
    submit_s = np.array([float(one.submit_s) for one in runs])
    time_s = np.array([job.sleep_s for job in jobs], float)

    def quantile(what: str, q: str) -> np.ndarray:
        found = [[one.estimates[name][what] for name in PARTITIONS] for one in runs]
        return np.array([[math.nan if interval is None else interval[q] for interval in row] for row in found])

    return Workload(
        submit_s=submit_s - submit_s[0],
        gpus=np.array([[float(job.gpus)] * len(PARTITIONS) for job in jobs]),
        may=np.ones(time_s.shape, bool),
        time_s=time_s,
        energy_kwh=np.full(time_s.shape, np.nan),
        predicted_s=quantile("time_s", "p50"),
        high_s=quantile("time_s", "p90"),
        predicted_kwh=quantile("energy_kwh", "p50"),
        limit_s=np.array([job.limit_min * 60.0 for job in jobs]),
    )


def simulate(work: Workload, agent: config.AgentConfig) -> Schedule:
    """With the agent's policy and period."""
    shapes = [os.environ.get(f"LAB_{name.upper()}", shape) for name, shape in (("a100", "2x2"), ("a6000", "2x4"))]
    gpus = np.array([float(math.prod(map(int, shape.split("x")))) for shape in shapes])
    cluster = Cluster(PARTITIONS, gpus, np.zeros(len(gpus)))
    executor = replace(executors.agent, period_s=agent.period_s)
    schedule = run(work, cluster, named(agent.policy, agent.kappa), executor)
    verify(work, cluster, schedule)
    return schedule


def delayed(work: Workload, late_s: float, idle_s: float) -> Workload:
    """The same where each decision takes ``late_s`` and a GPU whose job has ended idles for ``idle_s``, which then
    counts as running."""
    return replace(work, submit_s=work.submit_s + late_s, time_s=work.time_s + idle_s)


def compare(jobs: Sequence[SleepJob], runs: Sequence[Run], agent: config.AgentConfig) -> dict[str, Any]:
    """Figures of the lab, and of the simulator with the delays of ``DELAYS``."""
    work, first = workload(jobs, runs), runs[0].submit_s
    start_s = np.array([float(one.start_s - first) for one in runs])
    end_s = np.array([float(one.end_s - first) for one in runs])
    types = np.array([PARTITIONS.index(one.partition) for one in runs])
    found: dict[str, Any] = {"lab": _totals(work, start_s, end_s)}
    for name, (late_s, idle_s) in DELAYS.items():
        schedule = simulate(delayed(work, late_s, idle_s), agent)
        ran_s = work.time_s[np.arange(len(jobs)), schedule.type]
        off_s = np.percentile(start_s - schedule.start_s, (10, 50, 90))
        found[name] = _totals(work, schedule.start_s, schedule.start_s + ran_s) | {
            "spearman": round(float(np.corrcoef(_ranks(start_s), _ranks(schedule.start_s))[0, 1]), 3),
            "kendall": round(_kendall(start_s, schedule.start_s), 3),
            "same_partition": round(float((types == schedule.type).mean()), 3),
            "off_s": off_s.round(1).tolist(),
        }
    return found


def _totals(work: Workload, start_s: np.ndarray, end_s: np.ndarray) -> dict[str, float]:
    sums = {"wait_s": (start_s - work.submit_s).sum(), "run_s": (end_s - start_s).sum(), "makespan_s": end_s.max()}
    return {name: round(float(value), 1) for name, value in sums.items()}


def _ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks: starts are whole seconds in the lab, many of them equal."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _kendall(one: np.ndarray, other: np.ndarray) -> float:
    """tau b."""
    a, b = (np.sign(values[:, None] - values)[np.triu_indices(len(values), 1)] for values in (one, other))
    return float((a * b).sum() / math.sqrt(np.abs(a).sum() * np.abs(b).sum()))


def start_services() -> None:
    subprocess.run(
        ["bash", LAB / "slurmcast.sh", "start"], check=True, env={**os.environ, "PROJECT_DIR": str(LAB.parents[1])}
    )

    def healthy() -> bool:
        try:
            return bool(Client(config.load()).request("GET", "/v1/health"))
        except ClientError:
            return False

    _await(healthy, "slurmcastd doesn't answer", 60)
    _await(Path("/run/slurmcast/lease").exists, "the agent writes no lease", 60)


def main() -> None:
    parser(__doc__).parse_args()
    start_services()
    jobs = draw(int(os.environ.get("JOBS", "60")), int(os.environ.get("SEED", "1")))
    found = compare(jobs, perform(jobs), config.load().agent)
    print(f"{len(jobs)} jobs; off: the lab's starts against the simulator's, 10th, 50th and 90th percentile")
    print(f"{'':12}  wait s   run s  makespan s  Spearman  Kendall  same partition  off s")
    for name, row in found.items():
        print(f"{name:12}{row['wait_s']:8.0f}{row['run_s']:8.0f}{row['makespan_s']:12.0f}", end="")
        if name != "lab":
            print(f"{row['spearman']:10.3f}{row['kendall']:9.3f}{row['same_partition']:16.0%}  {row['off_s']}", end="")
        print()
    print(json.dumps({"jobs": len(jobs), **found}))


if __name__ == "__main__":
    main()
