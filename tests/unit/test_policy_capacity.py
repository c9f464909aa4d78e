"""A job fits where its nodes fit: GPUs, CPUs and memory, node by node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.model import Node
from slurmcast.policy.capacity import Capacity, Shape


def node(free: int, gpus: int = 8, cpus: int = 64, memory_mb: int = 1000, usable: bool = True, busy: int = 0) -> Node:
    return Node("n", gpus, free, 64 + busy, cpus, 1000, memory_mb, usable=usable)


# case: (nodes, jobs in turn, whether each fits)
CASES: dict[str, tuple[list[Node], list[Shape], list[bool]]] = {
    "one node": ([node(4)], [Shape(3), Shape(2), Shape(1)], [True, False, True]),
    "borders are kept": ([node(2), node(2)], [Shape(3, per_node=3)], [False]),
    "total over nodes": ([node(2), node(2)], [Shape(3)], [True]),
    "several nodes": ([node(2), node(2), node(1)], [Shape(4, 2, 2), Shape(1)], [True, True]),
    "too few nodes": ([node(4)], [Shape(4, 2, 2)], [False]),
    "best fit keeps the empty node": ([node(8), node(2)], [Shape(2, per_node=2), Shape(8, per_node=8)], [True, True]),
    "unusable nodes": ([node(8, usable=False)], [Shape(1)], [False]),
    "no CPUs left": ([node(4, cpus=3)], [Shape(1, per_node=1, cpus=4), Shape(1, cpus=3)], [False, True]),
    "CPUs are used up": ([node(4)], [Shape(1, per_node=1, cpus=40), Shape(1, per_node=1, cpus=40)], [True, False]),
    "no memory left": ([node(4, memory_mb=5)], [Shape(1, per_node=1, memory_mb=6)], [False]),
    "exclusive": ([node(8), node(7)], [Shape(1, per_node=1, whole=True), Shape(2, per_node=2)], [True, True]),
    "exclusive uses all": ([node(8)], [Shape(1, per_node=1, whole=True), Shape(1)], [True, False]),
    "exclusive and busy CPUs": ([node(8, busy=1)], [Shape(1, per_node=1, whole=True)], [False]),
}


@pytest.mark.parametrize("case", CASES)
def test_fit(case: str) -> None:
    nodes, shapes, expected = CASES[case]
    capacity = Capacity(nodes)
    assert [capacity.take(shape) for shape in shapes] == expected


@given(st.lists(st.integers(0, 8), max_size=5), st.lists(st.integers(1, 6), max_size=12), st.booleans())
def test_never_more_than_there_is(free: list[int], jobs: list[int], whole_node: bool) -> None:
    capacity = Capacity([node(gpus) for gpus in free])
    placed = sum(job for job in jobs if capacity.take(Shape(job, per_node=job if whole_node else None)))
    assert capacity.gpus == sum(free) - placed >= 0


@given(st.integers(0, 30), st.lists(st.integers(1, 9), max_size=9))
def test_one_node_is_the_papers_condition(free: int, jobs: list[int]) -> None:
    capacity, left = Capacity([node(free, gpus=30)]), free
    for job in jobs:
        assert capacity.take(Shape(job)) is (job <= left)
        left -= job if job <= left else 0
