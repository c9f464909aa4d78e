"""The benchmark of predictions: what it leaves out, and how it counts."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from slurmcast.model import Reading

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
pytest.importorskip("scipy", reason="needs slurmcast[bench]")

from predict.data import Run
from predict.figures import choices, figures
from predict.splits import SPLITS, folds

TYPES = ("fast", "slow")


def run(program: str, setting: str, gpu_type: str, time_s: float = 1.0) -> Run:
    return Run(program, Reading(f"{program} {setting}", "", {}), gpu_type, 1, (time_s,), None, {})


RUNS = [run(f"p{p}", f"s{s}", t) for p in range(4) for s in range(6) for t in TYPES]


@pytest.mark.parametrize("split", SPLITS)
def test_each_run_is_left_out_once(split: str) -> None:
    masks = list(folds(RUNS, split, seed=3))
    assert (np.sum(masks, axis=0) == 1).all()
    assert all((a == b).all() for a, b in zip(masks, folds(RUNS, split, seed=3), strict=True))


@pytest.mark.parametrize(("split", "whole"), [("config", lambda r: r.reading.key), ("program", lambda r: r.program)])
def test_what_belongs_together_is_left_out_together(split: str, whole) -> None:  # type: ignore[no-untyped-def]
    seen = defaultdict(set)
    for number, out in enumerate(folds(RUNS, split, seed=0)):
        for r, left_out in zip(RUNS, out, strict=True):
            if left_out:
                seen[whole(r)].add(number)
    assert all(len(found) == 1 for found in seen.values())


def test_one_gpu_type_of_each_setting_is_left_out_at_a_time() -> None:
    for out in folds(RUNS, "gpu", seed=0):
        left_out = [r.reading.key for r, o in zip(RUNS, out, strict=True) if o]
        assert len(left_out) == len(set(left_out)) == 24


def test_figures_by_hand() -> None:
    runs = [run("a", str(n), "fast") for n in range(4)]
    truth = np.log([1.0, 2.0, 4.0, 8.0])
    middle = np.log([1.1, 2.0, 5.0, np.nan])
    low, high = np.log([0.9, 2.5, np.nan, np.nan]), np.log([1.2, 3.0, np.nan, np.nan])
    found = figures(runs, truth, middle, low, high)
    assert (found["runs"], found["guessed"], found["spearman"]) == (4, 3, pytest.approx(1))
    assert found["median_ape"] == pytest.approx(0.1)
    assert (found["coverage80"], found["unknown"]) == (0.5, 0.5)
    assert found["width"] == pytest.approx(np.median([1.2 / 0.9, 3.0 / 2.5]))
    assert "coverage80" not in figures(runs, truth, middle)


def test_the_better_partition_counts_where_two_differ_by_more_than_a_tenth() -> None:
    times = {"a": (1.0, 2.0), "b": (1.0, 1.05), "c": (3.0, 1.0), "d": (1.0, 4.0)}
    runs = [run("p", name, t, s) for name, pair in times.items() for t, s in zip(TYPES, pair, strict=True)]
    truth = np.log([r.time_s for r in runs])
    always_fast = np.array([0.0, 1.0] * 4)
    found = choices(runs, truth, always_fast)
    assert found == {"pairs": 3, "best_partition": pytest.approx(2 / 3), "always_one": pytest.approx(2 / 3)}
    assert choices(runs, truth, truth)["best_partition"] == 1
