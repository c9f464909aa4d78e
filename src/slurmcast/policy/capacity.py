"""Free GPUs of a partition, node by node, and whether a job fits: a_ij <= c_j with the nodes' borders kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """GPUs that a job asks for: ``nodes`` times ``per_node``, or ``total`` spread anyhow where ``per_node`` is None."""

    total: int
    nodes: int = 1
    per_node: int | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """Free GPUs per node."""

    free: tuple[int, ...]
    total: int

    @classmethod
    def of(cls, free: tuple[int, ...]) -> Capacity:
        return cls(free, sum(free))

    def without(self, shape: Shape) -> Capacity | None:
        """What is left after the job was placed, or None where it doesn't fit.

        Best fit: the fullest nodes that suffice, so that whole nodes stay free for wide jobs.
        """
        if shape.total > self.total:
            return None
        free = sorted(self.free)
        if shape.per_node is not None:
            chosen = [n for n, gpus in enumerate(free) if gpus >= shape.per_node][: shape.nodes]
            if len(chosen) < shape.nodes:
                return None
            for n in chosen:
                free[n] -= shape.per_node
            return Capacity.of(tuple(free))
        single = next((n for n, gpus in enumerate(free) if gpus >= shape.total), None)
        if single is not None:
            free[single] -= shape.total
            return Capacity.of(tuple(free))
        left = shape.total
        for n in range(len(free) - 1, -1, -1):  # the emptiest nodes first: as few nodes as possible
            taken = min(left, free[n])
            free[n] -= taken
            left -= taken
        return Capacity.of(tuple(free))
