"""What is left out together, fold by fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from predict.data import Run

SPLITS = ("random", "config", "program", "gpu")
FOLDS = 10


def folds(runs: Sequence[Run], split: str, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Masks (n,) of what is left out; each run is left out once. All repeats of a setting on a GPU type are one run.

    * ``random``: one run in ten (the paper's 9:1).
    * ``config``: one setting in ten, on all GPU types.
    * ``program``: one program at a time.
    * ``programs``: one program in ten, for models that take minutes a fold.
    * ``gpu``: one run of each setting at a time, those on its other GPU types stay.
    """
    n = len(runs)
    rng = np.random.default_rng(seed)
    match split:
        case "random":
            label = rng.permutation(n) % FOLDS
        case "config":
            label = _spread([run.reading.key for run in runs], rng) % FOLDS
        case "program":
            label = _spread([run.program for run in runs], rng)
        case "programs":
            label = _spread([run.program for run in runs], rng) % FOLDS
        case "gpu":
            label = _turns([(run.reading.key, run.gpus) for run in runs], rng)
        case _:
            raise ValueError(f"no split is called {split!r}")
    for fold in range(int(label.max()) + 1):
        yield label == fold


def shift(runs: Sequence[Run], seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """A planted shift: masks (n,) of what is known, of new settings of known programs, and of new programs.

    A quarter of the programs is new, and of the others one setting in ten.
    """
    rng = np.random.default_rng(seed)
    program = _spread([run.program for run in runs], rng)
    fresh = program < (program.max() + 1) / 4
    setting = ~fresh & (_spread([run.reading.key for run in runs], rng) % FOLDS == 0)
    return ~fresh & ~setting, setting, fresh


def _spread(names: Sequence[str], rng: np.random.Generator) -> NDArray[np.int64]:
    """A number for each name, in random order."""
    distinct = sorted(set(names))
    number = dict(zip(distinct, rng.permutation(len(distinct)), strict=True))
    return np.array([number[name] for name in names])


def _turns(names: Sequence[tuple[str, int]], rng: np.random.Generator) -> NDArray[np.int64]:
    """Within each group of one name, the numbers 0, 1, ... in random order."""
    label = np.empty(len(names), np.int64)
    members: dict[tuple[str, int], list[int]] = {}
    for index, name in enumerate(names):
        members.setdefault(name, []).append(index)
    for indexes in members.values():
        label[indexes] = rng.permutation(len(indexes))
    return label
