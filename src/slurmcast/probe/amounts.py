"""The amount of work within a script and between scripts: two different things.

Within a script time is proportional to epochs. Between scripts it isn't: who trains for 600 epochs has short ones. So
for each number that says how much work is asked for or how large models and inputs are, there are two columns: what is
*typical* of the script (the mean over its known jobs), whose influence is learned, and how far the job goes *beyond*
that, of which an exponent is expected until the examples say otherwise. What is typical of a script that isn't known is
what its own sources would do if nothing were asked for, and where they don't say, what is asked for.

The options of a program's own (``--n-critic``) mean nothing to other programs: they only have the second column. Two
more columns let all scripts learn together how far the expected exponents are from the site's: where jobs are short,
much of their time is start-up, and proportionality holds less.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.features import BATCH, PER_PASS, PER_STEP, REPEATS, SIZES, Array, Numbers, squared_distances

OWN_EXPONENT = 0.5
"""Time is taken to grow with this power of a number of the program's own: most mean more work, some don't."""
SIZE_EXPONENT = 0.5
"""The same for sizes of models and inputs: arithmetic grows with their first or second power, small ones leave a
processor idle."""
STEP_BATCH_EXPONENT = 0.5
"""The same for the batch size where work is counted in steps; a pass over the data takes about as long in any batch."""


def typical_of_groups(levels: Array, scripts: Sequence[Hashable]) -> Array:
    """The typical amounts of each job's script, of shape (n, q), NaN where none of its jobs names the number;
    ``levels`` (n, q) as from :meth:`slurmcast.probe.features.Numbers.levels`."""
    typical = np.empty_like(levels)
    members: dict[Hashable, list[int]] = {}
    for index, script in enumerate(scripts):
        members.setdefault(script, []).append(index)
    for indexes in members.values():
        part = levels[indexes]
        counts = np.isfinite(part).sum(axis=0)
        typical[indexes] = np.where(counts > 0, np.nansum(part, axis=0) / np.maximum(counts, 1), np.nan)
    return typical


def typical_of_nearest(
    vectors: NDArray[np.float32], usual: Array, known: NDArray[np.float32], typical: Array, near: float
) -> tuple[Array, NDArray[np.bool_]]:
    """The same for jobs that are asked about, of shape (n, q): the ``typical`` amounts (m, q) of the nearest of the
    ``known`` scripts (m, d) where it is ``near`` enough, else the job's ``usual`` ones (n, q); and where it is so
    near, (n,)."""
    squared = squared_distances(vectors, known)
    nearest = squared.argmin(axis=1)
    close = squared[np.arange(len(vectors)), nearest] <= near**2
    found = typical[nearest]
    return np.where(close[:, None] & np.isfinite(found), found, usual), np.asarray(close)


def split(numbers: Numbers, rows: Array, levels: Array, typical: Array) -> Array:
    """``rows`` with the typical levels in place of the job's own, and how far it goes beyond them as further columns:
    one for each measure, what those are expected to make of the time, the sum over the program's own numbers, one for
    each of these; of shape (n, numbers.width + q + 2). A number that a job doesn't name goes nowhere."""
    replaced = rows.copy()
    for place, name in enumerate(numbers.measures):
        column = numbers.names.index(name)
        known = np.isfinite(typical[:, place])
        replaced[known, column] = typical[known, place] - numbers.means[column]
    shared, own = np.split(np.nan_to_num(levels - typical), [len(numbers.measures)], axis=1)
    expected = _expected(numbers, rows, shared)
    return np.hstack([replaced, shared, expected[:, None], own.sum(axis=1, keepdims=True), own])


def ahead(numbers: Numbers, rows: Array) -> Array:
    """Logarithm of how much longer than its script's typical job each job is taken to run, (n,); ``rows`` from
    :func:`split`."""
    expected, own = rows[:, numbers.width + len(numbers.measures) :].T[:2]
    return np.asarray(expected + OWN_EXPONENT * own)


def _expected(numbers: Numbers, rows: Array, beyond: Array) -> Array:
    """The part of it that is due to the measures, of shape (n,); ``beyond`` (n, measures)."""
    columns = dict(zip(numbers.measures, beyond.T, strict=True))
    by_steps = _present(numbers, rows, "steps") & ~_present(numbers, rows, "epochs")

    def total(names: tuple[str, ...]) -> Array:
        return np.asarray(sum((columns[name] for name in names if name in columns), np.zeros(len(rows))))

    counted = np.where(by_steps, total(PER_STEP) + STEP_BATCH_EXPONENT * total((BATCH,)), total(PER_PASS))
    return np.asarray(counted + total(REPEATS) + SIZE_EXPONENT * total(SIZES))


def _present(numbers: Numbers, rows: Array, name: str) -> NDArray[np.bool_]:
    """Which rows have the number."""
    if name in numbers.sometimes:
        return np.asarray(rows[:, len(numbers.names) + numbers.sometimes.index(name)] > 0)
    return np.full(len(rows), name in numbers.names)
