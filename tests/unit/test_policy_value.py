"""Algorithm 2 of the paper (arXiv 2608.18503, A.3.1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slurmcast.model import Node
from slurmcast.policy.base import Floats
from slurmcast.policy.capacity import Capacity, Room, Shape
from slurmcast.policy.placement import assign
from slurmcast.policy.value import by_value, values

NAN = float("nan")


def array(*rows: list[float]) -> Floats:
    return np.array(rows, dtype=float)


def assigned(v: Floats, gpus: list[int], *free: int) -> dict[int, int]:
    """Algorithm 2 on partitions of one node each."""
    capacities = [Capacity([Node("n", count, count)]) for count in free]
    return assign(by_value(v), Room(capacities, [Shape(a) for a in gpus]).take)


def test_value_is_the_papers_formula() -> None:
    v = values(array([2.0, 4.0]), array([100.0, 50.0]), array([0.5, 0.1]), kappa=0.01)
    assert v == pytest.approx(array([1 / 200 - 0.005, 1 / 200 - 0.001]))


def test_without_kappa_energy_is_not_looked_at() -> None:
    assert values(array([1.0]), array([10.0]), array([NAN]), kappa=0.0)[0, 0] == pytest.approx(0.1)


def test_missing_energy_is_the_mean_power_and_not_zero() -> None:
    """Job 0 used 2 kWh for 100 GPU s on the first type; job 1, unknown there, is taken to draw the same power."""
    gpus, time_s = array([1, 1], [1, 1]), array([100, 100], [200, 50])
    energy = array([2.0, 1.0], [NAN, 1.0])
    v = values(gpus, time_s, energy, kappa=1.0)
    assert v[1, 0] == pytest.approx(1 / 200 - 4.0)
    other_type = values(gpus, time_s, array([2.0, NAN], [2.0, NAN]), kappa=1.0)
    assert other_type[0, 1] == pytest.approx(1 / 100 - 100 * 4.0 / 300)


def test_no_energy_at_all_leaves_the_time() -> None:
    assert values(array([1.0, 1.0]), array([10.0, 20.0]), array([NAN, NAN]), 5.0) == pytest.approx(array([0.1, 0.05]))


def test_unknown_time_has_no_value() -> None:
    v = values(array([1.0, 1.0]), array([NAN, 20.0]), array([1.0, 1.0]), 1e-4)
    assert np.isnan(v[0, 0])
    assert not np.isnan(v[0, 1])


# case: (v, GPUs of each job, free GPUs, job -> partition)
CASES: dict[str, tuple[Floats, list[int], list[int], dict[int, int]]] = {
    "best value first": (array([1, 2], [3, 1]), [1, 1], [1, 1], {1: 0, 0: 1}),
    "each job once": (array([9, 8], [1, 2]), [1, 1], [2, 2], {0: 0, 1: 1}),
    "second best where the best is full": (array([9, 1], [8, 2]), [1, 1], [1, 1], {0: 0, 1: 1}),
    "what doesn't fit is skipped, not waited for": (array([9, 8], [1, 1]), [4, 1], [2, 2], {1: 0}),
    "negative values are assigned too": (array([-5, -7]), [1], [1, 1], {0: 0}),
    "pairs that may not be": (array([NAN, -7]), [1], [1, 1], {0: 1}),
    "nothing may be": (array([NAN, NAN]), [1], [1, 1], {}),
    "equal values: who came first": (array([1, NAN], [1, NAN]), [1, 1], [1, 1], {0: 0}),
    "nothing free": (array([1, 2]), [1], [0, 0], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_assign(case: str) -> None:
    v, gpus, free, expected = CASES[case]
    assert assigned(v, gpus, *free) == expected


@given(
    arrays(float, (6, 2), elements=st.floats(-10, 10)),
    st.lists(st.integers(1, 4), min_size=6, max_size=6),
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_assignment_is_the_algorithm_word_by_word(v: Floats, gpus: list[int], free: tuple[int, int]) -> None:
    pairs = sorted(((-v[i, j], i, j) for i in range(6) for j in range(2)), key=lambda pair: pair[0])
    left, expected = list(free), {}
    for _, i, j in pairs:
        if i not in expected and gpus[i] <= left[j]:
            expected[i] = j
            left[j] -= gpus[i]
    assert assigned(v, gpus, *free) == expected
