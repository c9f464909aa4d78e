"""Cross-validation: each run is guessed by a model that hasn't seen it, and each choice is made by one model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from predict.data import Run
from predict.models import Array, Guesses

Indexes = NDArray[np.intp]
Guess = Callable[[Indexes, Indexes], Guesses]
"""Which runs are known, and which are asked for, to guesses of the latter."""


@dataclass(frozen=True)
class HeldOut:
    """What was guessed of runs that were left out: logarithms, NaN where nothing was said.

    ``middle``, ``low`` and ``high`` are those of a run by the model of the fold that left it out.

    ``pairs`` (m, 2) are two runs of a setting on two GPU types of which a fold left out one or both, once for each such
    fold; ``both`` (m, 2, ...) is what that fold's model says of the two. So what is compared is what a scheduler would
    compare, the words of one model: guesses of different folds' models, each of which has seen the other's truth, would
    come out reversed where types hardly differ.
    """

    asked: NDArray[np.bool_]
    """Which runs were left out, (n,)."""
    middle: Array
    low: Array | None
    high: Array | None
    pairs: Indexes
    both: Array

    def of(self, target: int) -> HeldOut:
        """The guesses of one target, without the last axis."""
        low, high = (None if part is None else part[..., target] for part in (self.low, self.high))
        return HeldOut(self.asked, self.middle[..., target], low, high, self.pairs, self.both[..., target])


def cross_validate(runs: Sequence[Run], folds: Iterable[NDArray[np.bool_]], guess: Guess) -> HeldOut:
    """Leave out each fold, a mask (n,), and have it guessed from the other runs, with all pairs it has a part in."""
    settings = _pairs(runs)
    asked = np.zeros(len(runs), bool)
    parts: list[Array | None] = [np.full((len(runs), 2), np.nan) for _ in range(3)]
    pairs, both = [np.empty((0, 2), np.intp)], [np.empty((0, 2, 2))]
    for out in folds:
        touched = settings[out[settings].any(axis=1)]
        wanted = np.union1d(np.flatnonzero(out), touched)
        found = guess(np.flatnonzero(~out), wanted)
        left_out = out[wanted]
        for number, part in enumerate((found.middle, found.low, found.high)):
            whole = parts[number]
            if part is None or whole is None:
                parts[number] = None
            else:
                whole[wanted[left_out]] = part[left_out]
        asked |= out
        pairs.append(touched)
        both.append(found.middle[np.searchsorted(wanted, touched)])
    middle, low, high = parts
    assert middle is not None
    return HeldOut(asked, middle, low, high, np.concatenate(pairs), np.concatenate(both))


def _pairs(runs: Sequence[Run]) -> Indexes:
    """All pairs of runs of one setting with as many GPUs on two types, (m, 2)."""
    by_setting: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        by_setting[run.reading.key, run.gpus].append(index)
    found = [
        (a, b)
        for indexes in by_setting.values()
        for a, b in combinations(indexes, 2)
        if runs[a].gpu_type != runs[b].gpu_type
    ]
    return np.array(found, np.intp).reshape(-1, 2)
