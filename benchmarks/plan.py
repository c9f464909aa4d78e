"""How long a plan takes: the policy (values and Algorithm 2) against plain Python, and the whole of ``plan``.

10,000 pending jobs on 2 partitions of 64 nodes each. The last line is JSON; ``ratio`` is plain Python to ours.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from options import parser

from slurmcast.agent.known import Memo
from slurmcast.agent.loop import GC_THRESHOLD
from slurmcast.agent.plan import plan
from slurmcast.agent.told import Told, untold
from slurmcast.config import AgentConfig
from slurmcast.model import Change, Estimate, GpuRequest, Interval, Job, Node, Partition, PendingJob, Snapshot, Source
from slurmcast.policy.capacity import Capacity, Room, Shape
from slurmcast.policy.kappa import Kappas
from slurmcast.policy.placement import assign
from slurmcast.policy.value import by_value, values

JOBS, NODES, KAPPA, ROUNDS = 10_000, 64, 1e-4, 7


def partitions() -> tuple[Partition, ...]:
    def nodes(name: str) -> tuple[Node, ...]:
        return tuple(Node(f"{name}-{n}", 8, n % 9, 64, 64, 512000, 512000) for n in range(NODES))

    return (Partition("a100", "a100", nodes("a100"), 40.0, default=True), Partition("a6000", "a6000", nodes("b"), 48.0))


def snapshot(seed: int = 1) -> Snapshot:
    rng = random.Random(seed)
    pending = []
    for n in range(JOBS):
        gpus, time_s = rng.choice([1, 1, 1, 2, 4, 8]), rng.lognormvariate(8, 1)
        job = Job(
            *(n + 1, "alice", 1000, "train", "PENDING", "Priority", ("a100",), n // 4),
            time_limit_s=10**6,
            priority=1000,
            gpus=GpuRequest(per_node=gpus),
            gpus_total=gpus,
        )
        estimates = []
        for name, speed in (("a100", 1.0), ("a6000", rng.uniform(0.9, 2.0))):
            t, e = time_s * speed, time_s * speed * gpus * rng.uniform(100, 300) / 3.6e6
            estimates.append(Estimate(name, gpus, Interval(t / 2, t, t * 2), Interval(e / 2, e, e * 2), Source.PROBE))
        pending.append(PendingJob(job, tuple(estimates), partition_named=n % 4 == 0))
    return Snapshot(10**6, partitions(), tuple(pending))


def arrays(now: Snapshot) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
    """a, t and e as lists of rows."""
    rows = [p.estimates for p in now.pending]
    time_s = [[e.time_s.p50 for e in row if e.time_s] for row in rows]
    energy = [[e.energy_kwh.p50 for e in row if e.energy_kwh] for row in rows]
    return [[e.gpus for e in row] for row in rows], time_s, energy


def ours(a: list[list[int]], t: list[list[float]], e: list[list[float]]) -> dict[int, int]:
    v = values(np.array(a, dtype=float), np.array(t), np.array(e), KAPPA)
    room = Room([Capacity(p.nodes) for p in partitions()], [Shape(row[0], per_node=row[0]) for row in a])
    return assign(by_value(v), room.take)


def plain(a: list[list[int]], t: list[list[float]], e: list[list[float]]) -> dict[int, int]:
    """The same, as one would write Algorithm 2 down."""
    pairs = [(1 / (a[i][j] * t[i][j]) - KAPPA * e[i][j], i, j) for i in range(len(a)) for j in range(len(a[i]))]
    pairs.sort(key=lambda pair: -pair[0])
    free = [sorted(n.gpus_free for n in p.nodes) for p in partitions()]
    assigned: dict[int, int] = {}
    for _, i, j in pairs:
        if i in assigned:
            continue
        for n, gpus in enumerate(free[j]):
            if gpus >= a[i][j]:
                free[j][n] -= a[i][j]
                free[j].sort()
                assigned[i] = j
                break
    return assigned


def milliseconds(work: Callable[[], object]) -> float:
    """The least CPU time of several tries: the machine may have others to serve."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append((time.process_time() - start) * 1e3)
    return round(min(times), 2)


def cycles(config: AgentConfig) -> dict[str, float]:
    """The least CPU time in ms of a plan with the memo of the one before, and of making what the daemon is told of it,
    with the medians of how many decisions and kB those are. From plan to plan the changes are made, 1 % of the jobs
    are new, and the oldest 1 % gone."""
    memo, now, told = Memo(), snapshot(), Told()
    later = iter(replace(p, job=replace(p.job, job_id=p.job.job_id + JOBS)) for p in snapshot(seed=2).pending)
    plan_ms, news_ms, news, sizes = [], [], [], []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        made = plan(now, Kappas(KAPPA), config, memo=memo)
        planned = time.process_time()
        changes = {change.job_id: change for change in made.changes}
        body, told = untold(made.decisions, told, changes)
        sizes.append(len(json.dumps(body)) / 1e3)
        news_ms.append((time.process_time() - planned) * 1e3)
        plan_ms.append((planned - start) * 1e3)
        news.append(len(body["decisions"]))
        fresh = [next(later) for _ in range(JOBS // 100)]
        stay = [after(p, changes[p.job.job_id]) if p.job.job_id in changes else p for p in now.pending[len(fresh) :]]
        now = replace(now, now=now.now + 30, pending=(*stay, *fresh))
    figures = {"next_ms": min(plan_ms[1:]), "news_ms": min(news_ms[1:]), "news": statistics.median(news[1:])}
    figures["news_kb"] = statistics.median(sizes[1:])
    return {name: round(value, 2) for name, value in figures.items()}


def after(pending: PendingJob, change: Change) -> PendingJob:
    """The job once Slurm made the change."""
    job = pending.job
    partitions = (change.partition,) if change.partition else job.partitions
    factor = job.site_factor if change.site_factor is None else change.site_factor
    moved = replace(job, partitions=partitions, site_factor=factor)
    return replace(pending, job=moved, original_partitions=pending.own_partitions)


def main() -> None:
    parser(__doc__).parse_args()
    gc.set_threshold(GC_THRESHOLD)  # as the agent does
    now = snapshot()
    a, t, e = arrays(now)
    if ours(a, t, e) != plain(a, t, e):
        raise SystemExit("numpy and plain Python disagree")
    policy_ms, plain_ms = milliseconds(lambda: ours(a, t, e)), milliseconds(lambda: plain(a, t, e))
    figures = {"jobs": JOBS, "policy_ms": policy_ms, "plain_python_ms": plain_ms}
    print(f"{JOBS} pending jobs, 2 partitions of {NODES} nodes, CPU time, the least of {ROUNDS}:")
    print(f"Algorithm 2 {policy_ms} ms, in plain Python {plain_ms} ms")
    for name in ("value", "patient", "lookahead"):
        config = AgentConfig(policy=name)
        first_ms = milliseconds(lambda config=config: plan(now, Kappas(KAPPA), config))
        later = cycles(config)
        print(f"{name}: first plan {first_ms} ms, the next ones {later['next_ms']} ms;", end=" ")
        print(f"{later['news_ms']} ms for the {later['news_kb']:.0f} kB with {later['news']:.0f} decisions new in one")
        figures |= {f"{name}_first_ms": first_ms, **{f"{name}_{key}": value for key, value in later.items()}}
    print(json.dumps({**figures, "ratio": round(plain_ms / policy_ms, 2)}))


if __name__ == "__main__":
    main()
