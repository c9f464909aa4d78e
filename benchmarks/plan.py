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

import numpy as np

from slurmcast.agent.loop import GC_THRESHOLD
from slurmcast.agent.plan import plan
from slurmcast.config import AgentConfig
from slurmcast.model import Estimate, GpuRequest, Interval, Job, Node, Partition, PendingJob, Snapshot, Source
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
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return round(statistics.median(times), 2)


def main() -> None:
    gc.set_threshold(GC_THRESHOLD)  # as the agent does
    now = snapshot()
    a, t, e = arrays(now)
    if ours(a, t, e) != plain(a, t, e):
        raise SystemExit("numpy and plain Python disagree")
    policy_ms, plain_ms = milliseconds(lambda: ours(a, t, e)), milliseconds(lambda: plain(a, t, e))
    first_ms = milliseconds(lambda: plan(now, Kappas(KAPPA), AgentConfig()))
    print(f"{JOBS} pending jobs, 2 partitions of {NODES} nodes, median of {ROUNDS}:")
    print(f"policy {policy_ms} ms, plain Python {plain_ms} ms, whole plan with eligibility and reasons {first_ms} ms")
    figures = {"jobs": JOBS, "policy_ms": policy_ms, "plain_python_ms": plain_ms, "plan_ms": first_ms}
    print(json.dumps({**figures, "ratio": round(plain_ms / policy_ms, 2)}))


if __name__ == "__main__":
    main()
