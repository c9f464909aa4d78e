"""The benchmark of predictions: what it leaves out, and how it counts."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from slurmcast.model import Reading

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from predict import repeats
from predict.data import DataMissing, Run
from predict.figures import choices, figures, spread
from predict.models import Array, Guesses
from predict.splits import SPLITS, folds
from predict.validation import HeldOut, Indexes, cross_validate

TYPES = ("fast", "slow")


def run(program: str, setting: str, gpu_type: str, time_s: float = 1.0) -> Run:
    return Run(program, Reading(f"{program} {setting}", "", {}), gpu_type, 1, (time_s,), None, {})


RUNS = [run(f"p{p}", f"s{s}", t) for p in range(4) for s in range(6) for t in TYPES]


@pytest.mark.parametrize("split", (*SPLITS, "programs"))
def test_each_run_is_left_out_once(split: str) -> None:
    masks = list(folds(RUNS, split, seed=3))
    assert (np.sum(masks, axis=0) == 1).all()
    assert all((a == b).all() for a, b in zip(masks, folds(RUNS, split, seed=3), strict=True))


@pytest.mark.parametrize(
    ("split", "whole"),
    [("config", lambda r: r.reading.key), ("program", lambda r: r.program), ("programs", lambda r: r.program)],
)
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


def held(middle: Array, low: Array | None = None, high: Array | None = None) -> HeldOut:
    return HeldOut(np.ones(len(middle), bool), middle, low, high, np.empty((0, 2), int), np.empty((0, 2)))


def test_figures_by_hand() -> None:
    runs = [run("a", str(n), "fast") for n in range(4)]
    truth = np.log([1.0, 2.0, 4.0, 8.0])
    middle = np.log([1.1, 2.0, 5.0, np.nan])
    low, high = np.log([0.9, 2.5, np.nan, np.nan]), np.log([1.2, 3.0, np.nan, np.nan])
    found = figures(runs, truth, held(middle, low, high))
    assert (found["runs"], found["guessed"], found["told"], found["spearman"]) == (4, 3, 2, pytest.approx(1))
    assert found["median_ape"] == pytest.approx(0.1)
    assert (found["coverage80"], found["unknown"]) == (0.5, 0.5)
    assert found["width"] == pytest.approx(np.median([1.2 / 0.9, 3.0 / 2.5]))
    assert "coverage80" not in figures(runs, truth, held(middle))


def test_ranks_over_all_and_within_each_program() -> None:
    runs = [run(p, str(n), "fast") for p in ("small", "large") for n in range(3)]
    truth, reversed_within = np.array([1.0, 2, 3, 11, 12, 13]), np.array([3.0, 2, 1, 13, 12, 11])
    found = figures(runs, truth, held(reversed_within))
    assert found["spearman"] > 0.5
    assert found["spearman_within"] == pytest.approx(-1)


def test_coverage_is_that_of_all_seeds_together() -> None:
    found = spread([{"coverage80": 0.5, "told": 30}, {"coverage80": 0.9, "told": 10}, {"coverage80": None, "told": 0}])
    assert found["coverage80"] == pytest.approx(0.6)
    assert "coverage80" not in found["sd"]


PAIRED = [(1.0, 2.0), (1.0, 1.05), (3.0, 1.0), (1.0, 4.0)]
PAIRED_RUNS = [run("p", str(n), t, s) for n, pair in enumerate(PAIRED) for t, s in zip(TYPES, pair, strict=True)]


def truths(runs: list[Run]) -> Array:
    return np.log([[r.time_s, np.nan] for r in runs])


def test_the_better_partition_counts_where_two_differ_by_more_than_a_tenth() -> None:
    truth, pairs = truths(PAIRED_RUNS)[:, 0], np.arange(8).reshape(4, 2)
    always_fast = np.tile([0.0, 1.0], (4, 1))
    found = choices(PAIRED_RUNS, truth, pairs, always_fast)
    assert found == {"pairs": 3, "best_partition": pytest.approx(2 / 3), "always_one": pytest.approx(2 / 3)}
    assert choices(PAIRED_RUNS, truth, pairs, truth[pairs])["best_partition"] == 1


@pytest.mark.parametrize("split", SPLITS)
def test_the_truth_is_never_wrong(split: str) -> None:
    truth = truths(PAIRED_RUNS)
    found = cross_validate(PAIRED_RUNS, folds(PAIRED_RUNS, split, 0), lambda _, asked: Guesses(truth[asked]))
    assert figures(PAIRED_RUNS, truth[:, 0], found.of(0)) | {"pairs": 0} == {
        "runs": 8,
        "guessed": 8,
        "median_ape": 0,
        "p90_ape": 0,
        "r2_log": 1,
        "spearman": pytest.approx(1),
        "spearman_within": pytest.approx(1),
        "pairs": 0,
        "best_partition": 1,
        "always_one": pytest.approx(2 / 3),
    }


def test_the_two_guesses_of_a_choice_come_from_one_model() -> None:
    """Who takes the ratio to be 1.1 where it is 1.3, and a job's size from its run on the other type, names the better
    type by each single model; guesses of different models say the reverse."""
    runs = [run("p", str(n), t, s) for n in range(6) for t, s in zip(TYPES, (1.0, 1.3), strict=True)]
    factor = {"fast": 0.0, "slow": np.log(1.1)}

    def guess(known: Indexes, asked: Indexes) -> Guesses:
        size = {runs[i].reading.key: np.log(runs[i].time_s) - factor[runs[i].gpu_type] for i in known}
        said = np.array([size[runs[i].reading.key] + factor[runs[i].gpu_type] for i in asked])
        return Guesses(np.column_stack([said, said]))

    found = cross_validate(runs, folds(runs, "gpu", seed=0), guess)
    middle = found.middle[:, 0].reshape(6, 2)
    assert (middle[:, 0] > middle[:, 1]).all()
    assert choices(runs, truths(runs)[:, 0], found.pairs, found.both[..., 0]) == {
        "pairs": 12,
        "best_partition": 1,
        "always_one": 1,
    }


def test_what_is_left_out_is_guessed_from_the_other_runs_alone() -> None:
    seen = []

    def guess(known: Indexes, asked: Indexes) -> Guesses:
        seen.append((set(known), set(asked)))
        return Guesses(np.zeros((len(asked), 2)), np.full((len(asked), 2), float(len(seen))), None)

    masks = list(folds(PAIRED_RUNS, "random", seed=0))
    found = cross_validate(PAIRED_RUNS, masks, guess)
    for out, (known, asked), number in zip(masks, seen, range(1, 9), strict=True):
        index = int(np.flatnonzero(out)[0])
        assert known == set(range(8)) - {index}
        assert asked == {index, index ^ 1}
        assert found.low is not None
        assert found.low[index, 0] == number
    assert found.high is None


def test_noise_is_how_far_each_run_lies_from_each_other_run_of_its_work() -> None:
    truth, guess = repeats._each_other([[1.0, 2.0], [5.0, 5.0]])
    assert sorted(zip(np.exp(truth).round(6), np.exp(guess).round(6), strict=True)) == [(1, 2), (2, 1), (5, 5), (5, 5)]


def test_noise_of_the_corpus() -> None:
    first, agreeing = repeats.corpus()
    assert (first["runs"], agreeing["runs"]) == ("first_two", "that_agree")
    assert first["works"] >= agreeing["works"] > 100
    assert 0 < agreeing["median_ape"] < first["median_ape"] < 0.1
    assert 0.9 < first["spearman"] < 1
    assert first["always_one"] < first["best_partition"] < 1


def test_noise_of_trainings_that_stop_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "GAISSA", tmp_path / "gaissa.parquet")
    with pytest.raises(DataMissing, match="SLURMCAST_DATA"):
        list(repeats.gaissa())
    rows = [
        dict.fromkeys(repeats.WORK, name) | {repeats.TIME: n * size, repeats.ENERGY: n * size, repeats.EPOCHS: n}
        for name, size in (("small", 1.0), ("large", 9.0))
        for n in (1, 2)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), repeats.GAISSA)
    found = {(entry["target"], entry["runs"]): entry["median_ape"] for entry in repeats.gaissa()}
    assert found == {
        ("time", "whole"): pytest.approx(0.75),
        ("time", "by_epoch"): pytest.approx(0),
        ("energy", "whole"): pytest.approx(0.75),
        ("energy", "by_epoch"): pytest.approx(0),
    }
