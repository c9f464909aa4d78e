"""Speed of the simulator in jobs/s and how its time grows, and of two planners alone with long queues.

Times are CPU time of the one thread, which other work on the machine hardly changes. The last line is JSON; times in s,
memory in MiB.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import statistics
import time
import tracemalloc

import numpy as np
from options import parser

from slurmcast.policy.base import Moment, Policy, Queue, Running
from slurmcast.policy.registry import named
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import skip
from slurmcast.simulate.workload import Cluster, Workload

SIZES = (1_000, 10_000, 100_000)
POLICIES = ("simple", "value", "easy")
LOADS = (0.6, 1.1)
"""Of the GPU seconds that there are, those that jobs would take on the type where each takes fewest. Above 1, the queue
grows with the number of jobs, and the time of whoever looks at all of it: only the first two sizes."""
PLANNERS = ("value", "lookahead")
PLANS = ((10_000, 2), (100_000, 4))
"""Pending jobs and types."""
ROUNDS, KAPPA = 5, 1e-6


def workload(n: int, load: float, seed: int = 1) -> tuple[Workload, Cluster]:
    """Jobs of 1 to 8 GPUs and mostly some hours, arriving evenly on 128 and 256 GPUs."""
    rng = np.random.default_rng(seed)
    gpus = np.repeat(rng.choice([1.0, 1.0, 2.0, 4.0, 8.0], n)[:, None], 2, axis=1)
    time_s = rng.lognormal(8.5, 1.0, (n, 1)) * np.column_stack([np.ones(n), rng.uniform(0.9, 2.0, n)])
    energy_kwh = gpus * time_s * np.array([0.3, 0.2]) / 3600
    cluster = Cluster(("big", "small"), np.array([128.0, 256.0]), np.array([50.0, 20.0]))
    interval_s = float((gpus * time_s).min(axis=1).mean() / cluster.gpus.sum() / load)
    submit_s, limit_s = np.cumsum(rng.exponential(interval_s, n)), time_s.max(axis=1) * rng.uniform(1, 5, n)
    may = np.ones((n, 2), bool)
    predictions = (time_s, time_s * 1.5, energy_kwh)
    return Workload(submit_s, gpus, may, time_s, energy_kwh, *predictions, limit_s), cluster


def simulated(n: int, load: float, name: str) -> float:
    """Seconds for n jobs."""
    work, cluster = workload(n, load)
    begin = time.process_time()
    schedule = run(work, cluster, named(name, KAPPA), skip)
    seconds = time.process_time() - begin
    verify(work, cluster, schedule)
    return seconds


def pending(n: int, m: int) -> Moment:
    """A moment with n waiting jobs; 1,000 GPUs of each of m types are free, 1,000 in use by jobs of two."""
    rng = np.random.default_rng(2)
    gpus, time_s = np.repeat(rng.choice([1.0, 2.0, 4.0, 8.0], n)[:, None], m, axis=1), rng.lognormal(8.5, 1.0, (n, m))
    energy_kwh, limit_s = gpus * time_s * rng.uniform(0.1, 0.4, (n, m)) / 3600, np.full(n, np.inf)
    queue = Queue(np.arange(n, dtype=float), gpus, np.ones((n, m), bool), time_s, time_s * 1.5, energy_kwh, limit_s)
    kind, end_s = np.arange(500 * m) % m, 1e6 + rng.lognormal(8.5, 1.0, 500 * m)
    both, free = np.full(500 * m, 2.0), np.full(m, 1000.0)
    running = Running(kind, both, end_s, end_s + 1800, end_s + 36_000, both * 300)
    return Moment(1e6, free, 2 * free, queue, running)


def planned(moment: Moment, policy: Policy) -> tuple[float, float]:
    """Seconds of one plan, the median of ROUNDS, and the most memory that it took."""

    def once() -> float:
        begin = time.process_time()
        skip.start(moment, policy(moment))
        return time.process_time() - begin

    seconds = statistics.median(once() for _ in range(ROUNDS))
    tracemalloc.start()
    once()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak


def main() -> None:
    parser(__doc__).parse_args()
    figures: dict[str, dict[str, float]] = {}
    for load in LOADS:
        for name in POLICIES:
            sizes = SIZES if load < 1 else SIZES[:2]
            seconds = {n: simulated(n, load, name) for n in sizes}
            growth = math.log(seconds[sizes[-1]] / seconds[sizes[0]]) / math.log(sizes[-1] / sizes[0])
            rates = {n: round(n / s) for n, s in seconds.items()}
            print(f"{name}, load {load}: {rates} jobs/s; time grows as n^{growth:.2f}", flush=True)
            figures[f"{name}@{load}"] = {**{f"jobs_per_s_{n}": rate for n, rate in rates.items()}, "growth": growth}
    plans: dict[str, dict[str, dict[str, float]]] = {}
    for name, (n, m) in itertools.product(PLANNERS, PLANS):
        seconds_of_plan, memory = planned(pending(n, m), named(name, KAPPA, longest_wait_s=math.inf))
        print(f"{name} planner, {n} pending x {m} types: {seconds_of_plan * 1e3:.1f} ms, {memory:.0f} MiB")
        figure = {"plan_s": round(seconds_of_plan, 5), "memory_mib": round(memory, 1)}
        plans.setdefault(f"{name}_planner", {})[f"{n}x{m}"] = figure
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"simulator": figures, **plans, "resident_mib": round(resident)}))


if __name__ == "__main__":
    main()
