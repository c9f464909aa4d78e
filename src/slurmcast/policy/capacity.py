"""What is free on a partition, node by node, and whether a job fits: a_ij <= c_j with the nodes' borders kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurmcast.model import Node


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job asks for: ``nodes`` times ``per_node`` GPUs, or ``total`` spread anyhow where ``per_node`` is None.

    ``cpus`` and ``memory_mb`` are per node. ``whole``: an exclusive job, which needs nodes that nobody else is on.
    """

    total: int
    nodes: int = 1
    per_node: int | None = None
    cpus: int = 0
    memory_mb: int = 0
    whole: bool = False


Take = tuple[list[int], int, int, int]
"""A node's free amounts, and the GPUs, CPUs and memory that a job takes of them."""


class Capacity:
    """The free GPUs, CPUs and memory of a partition's usable nodes; :meth:`take` uses them up."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        usable = [node for node in nodes if node.usable]
        # Best fit goes over the fullest nodes first, so that empty nodes stay free for wide jobs.
        self._free = sorted([n.gpus_free, n.cpus_free, n.memory_mb_free, n.gpus, n.cpus] for n in usable)
        self.gpus = sum(free[0] for free in self._free)

    def take(self, shape: Shape) -> bool:
        """Place the job if it fits now; whether it did."""
        if shape.total > self.gpus:
            return False
        per_node = shape.total if shape.per_node is None else shape.per_node
        taken = self._same_on_each(shape, per_node, shape.nodes if shape.per_node is not None else 1)
        if taken is None and shape.per_node is None and not shape.whole:
            taken = self._spread(shape.total)
        if taken is None:
            return False
        for free, gpus, cpus, memory_mb in taken:
            free[0] -= gpus
            free[1] -= cpus
            free[2] -= memory_mb
            self.gpus -= gpus
        self._free.sort()
        return True

    def _same_on_each(self, shape: Shape, gpus: int, nodes: int) -> list[Take] | None:
        chosen: list[Take] = []
        for free in self._free:
            if len(chosen) == nodes:
                break
            fits = free[0] >= gpus and free[1] >= shape.cpus and free[2] >= shape.memory_mb
            if fits and not shape.whole:
                chosen.append((free, gpus, shape.cpus, shape.memory_mb))
            elif fits and free[0] == free[3] and free[1] == free[4]:
                chosen.append((free, free[0], free[1], free[2]))
        return chosen if len(chosen) == nodes else None

    def _spread(self, total: int) -> list[Take]:
        """The emptiest nodes first: as few nodes as possible. CPUs and memory go with the tasks, unknown here."""
        chosen: list[Take] = []
        for free in reversed(self._free):
            gpus = min(total, free[0])
            chosen.append((free, gpus, 0, 0))
            total -= gpus
        return chosen


class Room:
    """The partitions' capacities for jobs by number; :meth:`take` uses them up."""

    def __init__(self, capacities: Sequence[Capacity], shapes: Sequence[Shape]) -> None:
        """``capacities``: one per partition; ``shapes``: one per job."""
        self._capacities, self._shapes = capacities, shapes
        numbers: dict[Shape, int] = {}
        self._kinds = [numbers.setdefault(shape, len(numbers)) for shape in shapes]
        self._hopeless: set[tuple[int, int]] = set()  # what did not fit once won't fit later: room only shrinks

    def take(self, job: int, partition: int) -> bool:
        """Place the job there if it fits now; whether it did."""
        capacity, key = self._capacities[partition], (self._kinds[job], partition)
        if not capacity.gpus or key in self._hopeless:
            return False
        if capacity.take(self._shapes[job]):
            return True
        self._hopeless.add(key)
        return False
