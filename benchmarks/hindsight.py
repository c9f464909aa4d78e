"""How much of the gap between the value rule and the lower bound can be closed at all, with everything known.

On samples of the paper's work, orders and types are changed at random, and what waits less is kept, from the best of
the value and the look-ahead rule on. The best schedule that is known lies above the optimum, the bound below it. The
last line is JSON.
"""

from __future__ import annotations

import heapq
import json
from bisect import insort
from functools import partial
from math import inf

import numpy as np
from options import parser, whole

from slurmcast.policy.base import Ints
from slurmcast.policy.registry import named
from slurmcast.simulate import engine
from slurmcast.simulate.bound import Objective, lower_bound
from slurmcast.simulate.calibrations import DEFAULT, calibration, calibrations
from slurmcast.simulate.executors import skip
from slurmcast.simulate.paper import TEST, Setup, sample
from slurmcast.simulate.parallel import each
from slurmcast.simulate.workload import Cluster, Schedule, Workload

PATIENCES = (0.0, 0.1, 0.5)
WAIT = Objective(beta=1.0)


def listed(
    workload: Workload, cluster: Cluster, priority: list[float], types: Ints, earliest_s: list[float]
) -> Schedule:
    """Each job on its type, not before ``earliest_s``; of those that fit, the least ``priority`` first."""
    jobs = np.arange(len(workload))
    gpus, time_s = workload.gpus[jobs, types].tolist(), workload.time_s[jobs, types].tolist()
    kinds, free, start_s = types.tolist(), cluster.gpus.tolist(), np.zeros(len(jobs))
    arrivals = np.argsort(earliest_s, kind="stable").tolist()[::-1]
    ends: list[tuple[float, int]] = []
    queue: list[tuple[float, int]] = []
    while arrivals or ends:
        now = min(ends[0][0] if ends else inf, earliest_s[arrivals[-1]] if arrivals else inf)
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            free[kinds[job]] += gpus[job]
        while arrivals and earliest_s[arrivals[-1]] <= now:
            job = arrivals.pop()
            insort(queue, (priority[job], job))
        waiting = []
        for entry in queue:
            job = entry[1]
            if gpus[job] <= free[kinds[job]]:
                free[kinds[job]] -= gpus[job]
                start_s[job] = now
                heapq.heappush(ends, (now + time_s[job], job))
            else:
                waiting.append(entry)
        queue = waiting
    return Schedule(start_s, types)


def searched(workload: Workload, cluster: Cluster, begin: Schedule, tries: int, rng: np.random.Generator) -> Schedule:
    """The best of ``tries`` schedules, each the best so far with one job's type, place or earliest start changed."""
    n = len(workload)
    priority, types, earliest_s = begin.start_s.tolist(), begin.type, workload.submit_s.tolist()
    best = begin
    for _ in range(tries):
        changed, order, holds = types.copy(), priority.copy(), earliest_s.copy()
        job, dice = int(rng.integers(n)), rng.random()
        if dice < 0.4:
            changed[job] = rng.choice(np.flatnonzero(workload.may[job] & (workload.gpus[job] <= cluster.gpus)))
        if dice > 0.25:
            order[job] = order[int(rng.integers(n))] + rng.normal()
        if dice > 0.85:
            holds[job] = max(float(workload.submit_s[job]), float(best.start_s[int(rng.integers(n))] * rng.integers(2)))
        found = listed(workload, cluster, order, changed, holds)
        if found.start_s.sum() <= best.start_s.sum():
            best, priority, types, earliest_s = found, order, changed, holds
    engine.verify(workload, cluster, best)
    return best


def figures(name: str, tries: int, number: int) -> tuple[float, float, float, float]:
    """Waiting time in s by the value rule, by the best rule, in hindsight, and the bound, on one sample."""
    workload, cluster = sample(calibration(name), Setup(()), TEST, number)
    rules = [named("lookahead", patience=patience, longest_wait_s=inf) for patience in PATIENCES]
    schedules = [engine.run(workload, cluster, rule, skip) for rule in rules]
    costs = [WAIT.of(workload, schedule) for schedule in schedules]
    begin = schedules[int(np.argmin(costs))]
    found = searched(workload, cluster, begin, tries, np.random.default_rng(number))
    return costs[0], min(costs), WAIT.of(workload, found), lower_bound(workload, cluster, WAIT, found)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--calibration", choices=calibrations(), metavar="NAME", default=DEFAULT)
    options.add_argument("--samples", type=whole(1), default=6)
    options.add_argument("--tries", type=whole(0), default=10_000)
    asked = options.parse_args()
    rows = each(partial(figures, asked.calibration, asked.tries), range(asked.samples), "samples")
    for row in rows:
        print("value {:12,.0f} s  best rule {:12,.0f} s  hindsight {:12,.0f} s  bound {:12,.0f} s".format(*row))
    value, rule, hindsight, bound = np.mean(rows, axis=0).tolist()
    answer = {"value_wait_s": value, "best_rule_wait_s": rule, "hindsight_wait_s": hindsight, "bound_wait_s": bound}
    print(json.dumps({**answer, "share_of_gap": (value - hindsight) / (value - bound)}))


if __name__ == "__main__":
    main()
