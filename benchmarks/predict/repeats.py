"""The noise floor: how far runs of the same work differ, which no prediction can know.

Each run stands for a guess of each other run of its work. Who knew the mean of a work would be off by about 0.7 of
that, since only one of the two would be noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from corpus import table

from predict.data import DATA, DataMissing
from predict.figures import better, errors, within
from predict.models import Array

GAISSA = DATA / "gaissa" / "dl-training-energy-consumption.parquet"
WORK = ("training environment", "architecture", "gpu model", "batch size", "training size")
TIME, ENERGY, EPOCHS = "training duration (h)", "energy (MJ)", "trained epochs"


def corpus() -> Iterator[dict[str, Any]]:
    """Our corpus: the first two runs of each work, and how often one run on each partition names the one that is better
    in the other run; and of each accepted work the two runs that agree best."""
    rows = table.measured_everywhere()
    agreed = [row for row in rows if row.accepted]
    if rows:
        truth, guess = _each_other([row.times_s[:2] for row in rows])
        works = [(row.program, row.setting, turn) for row in rows for turn in range(2)]
        types = [row.partition for row in rows for _ in range(2)]
        yield _figures("first_two", rows, truth, guess) | better(works, types, truth, guess)
    if agreed:
        yield _figures("that_agree", agreed, *_each_other([table.closest(row.times_s) for row in agreed]))


def _figures(runs: str, rows: Sequence[table.Row], truth: Array, guess: Array) -> dict[str, Any]:
    """``truth`` and ``guess`` hold each row's two runs, each way round."""
    ranks = within([(row.program, row.partition) for row in rows for _ in range(2)], truth, guess)
    return {"runs": runs, "target": "time", "works": len(rows)} | errors(truth, guess) | {"spearman_within": ranks}


def gaissa() -> Iterator[dict[str, Any]]:
    """GAISSA's trainings of five image classifiers on three GPUs: whole runs, which end when they get no better, and by
    epoch. Raises :class:`DataMissing`."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataMissing("a parquet file has to be read: pip install 'slurmcast[bench]'") from None
    if not GAISSA.exists():
        raise DataMissing(f"{GAISSA} is absent; SLURMCAST_DATA names the folder that holds gaissa/")
    works = defaultdict(list)
    for row in parquet.read_table(GAISSA).to_pylist():
        works[tuple(row[name] for name in WORK)].append(row)
    for target, column in (("time", TIME), ("energy", ENERGY)):
        whole = [[row[column] for row in rows] for rows in works.values()]
        by_epoch = [[row[column] / row[EPOCHS] for row in rows] for rows in works.values()]
        for name, values in (("whole", whole), ("by_epoch", by_epoch)):
            yield {"runs": name, "target": target, "works": len(works)} | errors(*_each_other(values))


def _each_other(works: Sequence[Sequence[float]]) -> tuple[Array, Array]:
    """Logarithms of one run and another, (n,) each, for every ordered pair of runs of a work."""
    truth, guess = np.log([pair for values in works for pair in permutations(values, 2)]).T
    return truth, guess


REPEATS: Mapping[str, Callable[[], Iterator[dict[str, Any]]]] = {"corpus": corpus, "gaissa": gaissa}
