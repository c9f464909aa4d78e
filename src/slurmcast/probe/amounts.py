"""The amount of work within a script and between scripts: two different things.

Within a script time is proportional to epochs. Between scripts it isn't: who trains for 600 epochs has short ones. So
for each number that says how much work is asked for, there are two columns: what is *typical* of the script (the mean
over its known jobs), whose influence is learned, and how far the job goes *beyond* that, to which time is taken to be
proportional until the examples say otherwise. A script that isn't known is typical of itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import Array, Numbers, squared_distances
from slurmcast.probe.kernel import Inputs

PER_PASS = ("epochs", "samples", "steps_per_epoch", "thousand_images", "hours", "new_tokens")
PER_STEP = ("steps",)
REPEATS = ("trials", "folds")
"""Time is taken to be proportional to the numbers of ``REPEATS``, and either to those of ``PER_PASS`` or (where a job
names steps but no epochs) to those of ``PER_STEP``."""


def typical_of_groups(numbers: Numbers, rows: Array, scripts: Sequence[Hashable]) -> Array:
    """The typical amounts of each row's script, of shape (n, amounts); ``rows`` (n, numbers.width)."""
    amounts, there = _amounts(numbers, rows)
    typical = amounts.copy()
    members: dict[Hashable, list[int]] = {}
    for index, script in enumerate(scripts):
        members.setdefault(script, []).append(index)
    for indexes in members.values():
        counts = there[indexes].sum(axis=0)
        typical[indexes] = np.where(counts > 0, (amounts * there)[indexes].sum(axis=0) / np.maximum(counts, 1), 0.0)
    return typical


def typical_of_nearest(numbers: Numbers, inputs: Inputs, known: Inputs, near: float) -> Array:
    """The same for jobs that are asked about: that of the nearest of the ``known`` ones, whose rows were
    :func:`split` before, where it is ``near`` enough; else the job's own amounts."""
    squared = squared_distances(inputs.vectors, known.vectors)
    nearest = squared.argmin(axis=1)
    close = squared[np.arange(len(inputs)), nearest] <= near**2
    own, _ = _amounts(numbers, inputs.rows)
    return np.asarray(np.where(close[:, None], known.rows[nearest][:, _columns(numbers)], own))


def split(numbers: Numbers, rows: Array, typical: Array) -> Array:
    """``rows`` with the typical amounts in place of the job's own, and how far it goes beyond them as further columns;
    of shape (n, numbers.width + amounts). A number that a job doesn't name goes nowhere."""
    amounts, there = _amounts(numbers, rows)
    replaced = rows.copy()
    replaced[:, _columns(numbers)] = typical
    return np.hstack([replaced, np.where(there, amounts - typical, 0.0)])


def ahead(numbers: Numbers, rows: Array) -> Array:
    """Logarithm of how much longer than its script's typical job each job is taken to run, (n,); ``rows`` from
    :func:`split`."""
    names = _names(numbers)
    beyond = dict(zip(names, rows[:, numbers.width :].T, strict=True))
    by_steps = _present(numbers, rows, "steps") & ~_present(numbers, rows, "epochs")
    zero = np.zeros(len(rows))
    passes = np.sum([zero, *(beyond[name] for name in PER_PASS if name in beyond)], axis=0)
    steps = np.sum([zero, *(beyond[name] for name in PER_STEP if name in beyond)], axis=0)
    repeats = np.sum([zero, *(beyond[name] for name in REPEATS if name in beyond)], axis=0)
    return np.asarray(np.where(by_steps, steps, passes) + repeats)


def _names(numbers: Numbers) -> list[str]:
    return [name for name in numbers.names if name in (*PER_PASS, *PER_STEP, *REPEATS)]


def _columns(numbers: Numbers) -> list[int]:
    return [numbers.names.index(name) for name in _names(numbers)]


def _amounts(numbers: Numbers, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The amounts' columns of unsplit ``rows``, and where they are there."""
    names = _names(numbers)
    there = [_present(numbers, rows, name) for name in names]
    return rows[:, _columns(numbers)], np.array(there).reshape(len(names), len(rows)).T


def _present(numbers: Numbers, rows: Array, name: str) -> NDArray[np.bool_]:
    """Which rows have the number."""
    if name in numbers.sometimes:
        return np.asarray(rows[:, len(numbers.names) + numbers.sometimes.index(name)] > 0)
    return np.full(len(rows), name in numbers.names)
