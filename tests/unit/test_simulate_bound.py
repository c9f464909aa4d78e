"""The lower bound: below the best of all schedules on tiny work, and worth something on larger work."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.policy.value import ValueRule
from slurmcast.simulate.bound import Objective, lower_bound
from slurmcast.simulate.engine import run
from slurmcast.simulate.executors import skip
from slurmcast.simulate.workload import Cluster, Schedule, Workload

OBJECTIVES = {
    "wait": Objective(beta=1.0),
    "run": Objective(alpha=1.0),
    "energy": Objective(gamma=1.0),
    "all": Objective(alpha=0.5, beta=1.0, gamma=300.0),
}


def made_up(seed: int, n: int, gpus: tuple[float, float] = (2.0, 3.0)) -> tuple[Workload, Cluster]:
    """Jobs of one to two GPUs, some of which may run on one of the two types only."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.integers(0, 8, n)).astype(float)
    a = np.repeat(rng.integers(1, 3, n)[:, None].astype(float), 2, axis=1)
    may = rng.random((n, 2)) < 0.8
    may[~may.any(axis=1)] = True
    t = rng.integers(1, 12, (n, 2)).astype(float)
    e = a * t * rng.uniform(0.1, 0.4, (n, 2)) / 3600
    unlimited = np.full(n, np.inf)
    return Workload(submit_s, a, may, t, e, t, t, e, unlimited), Cluster(("big", "small"), np.array(gpus), np.ones(2))


def earliest(workload: Workload, cluster: Cluster, placed: list[tuple[float, int, int]], job: int, kind: int) -> float:
    """When the job can start beside those placed, (start, job, type)."""
    own = [(s, s + workload.time_s[i, kind], workload.gpus[i, kind]) for s, i, j in placed if j == kind]
    time_s, gpus = workload.time_s[job, kind], workload.gpus[job, kind]

    def fits(start: float) -> bool:
        moments = [start] + [s for s, _, _ in own if start < s < start + time_s]
        return all(gpus + sum(a for s, e, a in own if s <= at < e) <= cluster.gpus[kind] for at in moments)

    ends = [end for _, end, _ in own]
    return min(s for s in [workload.submit_s[job], *ends] if s >= workload.submit_s[job] and fits(s))


def optimum(workload: Workload, cluster: Cluster, objective: Objective) -> float:
    """The least cost of all schedules: each order of placing, on each choice of types, each job as early as can be."""
    n, best = len(workload), np.inf
    for types in product(*(np.flatnonzero(row).tolist() for row in workload.may)):
        for order in permutations(range(n)):
            placed: list[tuple[float, int, int]] = []
            for job in order:
                placed.append((earliest(workload, cluster, placed, job, types[job]), job, types[job]))
            start_s = np.array([s for s, _, _ in sorted(placed, key=lambda place: place[1])])
            best = min(best, objective.of(workload, Schedule(start_s, np.array(types))))
    return best


@pytest.mark.parametrize("name", OBJECTIVES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 4), bins=st.integers(1, 12))
def test_no_schedule_is_below_the_bound(name: str, seed: int, n: int, bins: int) -> None:
    workload, cluster = made_up(seed, n)
    objective = OBJECTIVES[name]
    bound = lower_bound(workload, cluster, objective, run(workload, cluster, ValueRule(0.0), skip), bins, steps=60)
    best = optimum(workload, cluster, objective)
    assert bound <= best + 1e-9
    if name in ("run", "energy"):
        assert bound == pytest.approx(best)  # waiting costs nothing there


def test_by_hand() -> None:
    """Three jobs of 10 s at once on the one GPU wait 0, 10 and 20 s."""
    ones, t = np.ones((3, 1)), np.full((3, 1), 10.0)
    workload = Workload(np.zeros(3), ones, ones > 0, t, t, t, t, t, np.full(3, np.inf))
    cluster = Cluster(("one",), np.ones(1), np.ones(1))
    known = run(workload, cluster, ValueRule(0.0), skip)
    assert lower_bound(workload, cluster, OBJECTIVES["wait"], known, 30, 2000) == pytest.approx(30, rel=0.01)
    assert lower_bound(workload, cluster, OBJECTIVES["energy"], known) == 30


def test_the_bound_is_worth_something_where_work_queues_up() -> None:
    workload, cluster = made_up(5, 60)
    known = run(workload, cluster, ValueRule(0.0), skip)
    bound = lower_bound(workload, cluster, OBJECTIVES["wait"], known)
    cost = OBJECTIVES["wait"].of(workload, known)
    assert 0.8 * cost < bound <= cost


def test_an_unknown_energy_counts_as_nothing() -> None:
    workload, cluster = made_up(1, 3)
    known = run(workload, cluster, ValueRule(0.0), skip)
    measured = lower_bound(workload, cluster, OBJECTIVES["energy"], known)
    workload.energy_kwh[0] = np.nan
    rest = workload.take(np.array([1, 2]))
    assert lower_bound(workload, cluster, OBJECTIVES["energy"], known) == pytest.approx(
        lower_bound(rest, cluster, OBJECTIVES["energy"], Schedule(known.start_s[1:], known.type[1:]))
    )
    assert measured > 0
