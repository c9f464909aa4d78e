"""What no schedule can beat, with everything known in hindsight: a lower bound on alpha run + beta wait + gamma energy.

Lagrangian relaxation (Fisher 1981) of the capacities. A GPU of type j has a price of lambda_j(tau) >= 0 per second, and
each job alone picks the type and the start that cost it least, however many others want the same GPUs:

    L(lambda) = sum_i min_(j, s >= r_i) [ alpha t_ij + beta (s - r_i) + gamma e_ij + a_ij int_s^(s + t_ij) lambda_j ]
                - sum_j c_j int lambda_j

In a schedule that fits, all jobs together pay no more than the last term, so L <= its cost whatever the prices are.
Prices are constant within a bin, so that a job's cost is piecewise linear in s and the minimum lies where it starts at
its submission or starts or ends at the border of a bin: L is exact, not rounded to bins. Good prices are found by the
subgradient method with Polyak's steps (Held, Wolfe and Crowder 1974) and momentum; poor ones only make the bound lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.base import Floats, Ints
from slurmcast.simulate.workload import Cluster, Schedule, Workload

PATIENCE = 20
"""Steps without a better bound after which the steps are halved."""
MOMENTUM = 0.8
SHORTEST = 1e-3
"""The search ends when steps are this short."""


@dataclass(frozen=True)
class Objective:
    """What is to be small: alpha * running time + beta * waiting time + gamma * energy, each summed over the jobs."""

    alpha: float = 0.0
    """Weight of a second of running."""
    beta: float = 0.0
    """Weight of a second of waiting."""
    gamma: float = 0.0
    """Weight of a kWh."""

    def place(self, workload: Workload) -> Floats:
        """The cost of running each job on each type, (n, m): infinite where it may not run. An energy that nobody knows
        counts as 0, which keeps the bound a bound."""
        cost = self.alpha * workload.time_s + self.gamma * np.nan_to_num(workload.energy_kwh)
        result: Floats = np.where(workload.may, cost, np.inf)
        return result

    def of(self, workload: Workload, schedule: Schedule) -> float:
        """The cost of a schedule."""
        ran = self.place(workload)[np.arange(len(workload)), schedule.type]
        return float(ran.sum() + self.beta * (schedule.start_s - workload.submit_s).sum())


def lower_bound(
    workload: Workload, cluster: Cluster, objective: Objective, known: Schedule, bins: int = 100, steps: int = 400
) -> float:
    """A cost that no schedule of ``workload`` on ``cluster`` can be below.

    ``known``: any schedule that fits, the better the faster the search; its cost scales the steps, and prices end with
    it. ``bins``: of the prices, most of them where jobs wait in that schedule. Takes O(steps n m bins). With
    ``beta`` = 0 the bound is the least cost of each job alone, which waiting attains.
    """
    alone = objective.place(workload).min(axis=1)
    best = float(alone.sum())
    if objective.beta == 0 or not len(workload):
        return best
    upper = objective.of(workload, known)
    edges = _edges(workload, known, bins)
    relaxed = [_Type(workload, kind, edges, objective) for kind in range(len(cluster.types))]
    capacity = cluster.gpus[:, None] * np.diff(edges)
    prices, slope, scale, since = np.zeros_like(capacity), np.zeros_like(capacity), 1.0, 0
    for _ in range(steps):
        costs, starts = zip(*(one.cheapest(price) for one, price in zip(relaxed, prices, strict=True)), strict=True)
        kind = np.argmin(costs, axis=0)
        value = float(np.min(costs, axis=0).sum() - (capacity * prices).sum())
        if value > best:
            best, since = value, 0
        else:
            since += 1
        if since == PATIENCE:
            scale, since = scale / 2, 0
        used = np.stack([one.use(np.flatnonzero(kind == j), starts[j]) for j, one in enumerate(relaxed)])
        slope = used - capacity + MOMENTUM * slope
        slope[(prices == 0) & (slope < 0)] = 0.0
        norm = float((slope**2 / capacity).sum())
        if norm == 0 or upper - value <= 1e-9 * abs(upper) or scale < SHORTEST:
            break
        prices = np.maximum(prices + scale * (upper - value) / norm * slope / capacity, 0.0)
    return best


def _edges(workload: Workload, known: Schedule, bins: int) -> Floats:
    """Borders of the bins, each with as many submissions and starts of jobs that wait: only then have GPUs a price."""
    waits = known.start_s > workload.submit_s
    end_s = (known.start_s + workload.time_s[np.arange(len(workload)), known.type]).max()
    moments = np.concatenate([workload.submit_s[waits], known.start_s[waits], [workload.submit_s[0], end_s]])
    result: Floats = np.unique(np.quantile(moments, np.linspace(0, 1, bins + 1)))
    return result


class _Type:
    """The jobs on one type: the starts where a job's cost may be least, and what it costs there."""

    def __init__(self, workload: Workload, kind: int, edges: Floats, objective: Objective) -> None:
        self._edges = edges
        self._gpus = workload.gpus[:, kind]
        self._time_s = np.where(workload.may[:, kind], workload.time_s[:, kind], 1.0)
        submit_s = workload.submit_s[:, None]
        borders = np.broadcast_to(edges, (len(workload), len(edges)))
        self._starts = np.maximum(np.hstack([submit_s, borders, borders - self._time_s[:, None]]), submit_s)
        place = objective.place(workload)[:, kind, None]
        self._unpriced = place + objective.beta * (self._starts - submit_s)
        self._begin, self._end = _Place(self._starts, edges), _Place(self._starts + self._time_s[:, None], edges)

    def cheapest(self, price: Floats) -> tuple[Floats, Floats]:
        """The least cost of each job on this type and the start that has it, both (n,); ``price`` (bins,)."""
        total = np.concatenate([[0.0], np.cumsum(price * np.diff(self._edges))])
        cost = self._unpriced + self._gpus[:, None] * (
            self._end.integral(price, total) - self._begin.integral(price, total)
        )
        which: Ints = cost.argmin(axis=1)
        rows = np.arange(len(cost))
        return cost[rows, which], self._starts[rows, which]

    def use(self, jobs: Ints, starts: Floats) -> Floats:
        """GPU seconds that the jobs take of each bin, (bins,)."""
        begin, end = starts[jobs, None], (starts[jobs] + self._time_s[jobs])[:, None]
        overlap = np.minimum(end, self._edges[1:]) - np.maximum(begin, self._edges[:-1])
        result: Floats = (np.maximum(overlap, 0.0) * self._gpus[jobs, None]).sum(axis=0)
        return result


class _Place:
    """Where moments lie within the bins, found once for the integrals of many prices."""

    def __init__(self, moments: Floats, edges: Floats) -> None:
        self._bin = np.clip(np.searchsorted(edges, moments, side="right") - 1, 0, len(edges) - 2)
        self._within = np.clip(moments, edges[0], edges[-1]) - edges[self._bin]

    def integral(self, price: Floats, total: Floats) -> Floats:
        """The integral of the price from the first border to each moment; nothing costs after the last."""
        result: Floats = total[self._bin] + price[self._bin] * self._within
        return result
