"""Finished runs as columns, some thousands at a time: what a report is added up from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUANTILES = (0.1, 0.5, 0.9)
"""Of an estimate's interval."""


@dataclass(frozen=True, eq=False)
class Runs:
    """n runs on GPUs, whatever their end. What isn't known is NaN, or an empty string."""

    user: Sequence[str]
    account: Sequence[str]
    partition: Sequence[str]
    state: Sequence[str]
    source: Sequence[str]
    """What the estimate was made from."""
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    elapsed_s: Floats
    gpus: Floats
    energy_kwh: Floats
    limit_s: Floats
    """The user's time limit."""
    changes: Floats
    """How often slurmcast changed the job while it waited."""
    placed: Bools
    """Whether slurmcast chose the partition, among several that the job could have run on."""
    time_s: Floats
    """The estimate's quantiles, (n, 3)."""
    kwh: Floats
    """Those of its energy, (n, 3)."""

    def __len__(self) -> int:
        return len(self.state)


def from_rows(rows: Sequence[Sequence[Any]]) -> Runs:
    """Rows of the fields up to ``placed`` in the order of :class:`Runs`, then three quantiles of time, three of energy;
    None where something isn't known."""
    user, account, partition, state, source, *numbers = zip(*rows, strict=True)
    texts = ([text or "" for text in column] for column in (user, account, partition, state, source))
    table = np.array(numbers, np.float64)  # None becomes NaN
    submit, start, end, elapsed, gpus, energy, limit, changes, placed = table[:-6]
    facts = submit, start, end, elapsed, gpus, energy, limit, changes
    return Runs(*texts, *facts, placed > 0, table[-6:-3].T, table[-3:].T)  # type: ignore[arg-type, call-arg]
