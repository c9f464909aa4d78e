"""``slurmcast evaluate`` on real stores and models, and the figures that it gives."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmcast.config import Config
from slurmcast.evaluate import evaluate
from slurmcast.evaluation.cases import Case
from slurmcast.evaluation.metrics import figures, loss, spearman
from slurmcast.model import Estimate, Interval, Outcome, Reading, Source
from slurmcast.store.records import Label, Origin
from slurmcast.train import TrainError, train_from_store
from tests.unit.store_world import BEGAN, fill, jobs, site


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A site where 150 jobs have ended."""
    config = site(tmp_path_factory.mktemp("site"))
    fill(config, jobs(150, both=0.5))
    return config


@pytest.fixture(scope="module")
def answer(filled: Config) -> dict[str, Any]:
    return evaluate(filled)


def rows(answer: dict[str, Any], target: str) -> dict[str, dict[str, Any]]:
    return {row["estimate"]: row for row in answer["results"] if row["target"] == target}


def test_the_newest_fifth_tests_what_is_learned_from_the_rest(answer: dict[str, Any]) -> None:
    assert (answer["older"], answer["newer"], answer["since"]) == (120, 30, BEGAN + 60 * 121 + 1)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.parametrize("target", ["time", "energy"])
def test_more_knowledge_gives_better_estimates(answer: dict[str, Any], target: str) -> None:
    found = rows(answer, target)
    assert max(found[name]["median_ape"] for name in ("size+ratio", "history")) < 0.1
    errors = [found[name]["median_ape"] for name in ("history", "user's mean", "prior")]
    assert errors == sorted(errors)
    assert found["as given"]["unknown"] == 0
    assert 0.6 < found["size+ratio"]["coverage80"] <= 1
    assert found["size+ratio"]["spearman"] > 0.95
    assert found["size+ratio"]["better"] > 0.8 and found["size+ratio"]["pairs"] > 3
    assert found["5 nearest"]["coverage80"] is None


def test_the_time_limit_names_no_partition(answer: dict[str, Any]) -> None:
    assert rows(answer, "time")["time limit"]["better"] == 0.5
    assert rows(answer, "energy")["time limit"]["unknown"] == 1


def test_what_is_left_out_says_why(answer: dict[str, Any]) -> None:
    assert "keep_scripts" in answer["left_out"]["TF-IDF + ridge"]
    assert "--paper" in answer["left_out"]["paper"]
    assert answer["left_out"]["in use"] == "no model is in use"


def test_the_model_in_use_is_tested_only_on_jobs_that_it_has_not_seen(tmp_path: Path) -> None:
    config, every = site(tmp_path), jobs(140)
    fill(config, every[:100])
    train_from_store(config, force=True)
    assert "has learned from all" in evaluate(config)["left_out"]["in use"]
    fill(config, every[100:110], first=100)
    in_use = rows(evaluate(config), "time")["in use"]
    assert in_use["jobs"] == 10 and in_use["median_ape"] < 0.15


def test_kept_scripts_are_read_as_words(tmp_path: Path) -> None:
    config = site(tmp_path)
    fill(config, jobs(100), keep_scripts=True)
    found = rows(evaluate(config, share=0.7), "time")
    assert found["TF-IDF + ridge"]["unknown"] == 0 and found["TF-IDF + ridge"]["median_ape"] < 1.5


def test_the_papers_probe_takes_part_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmcast.probe.network.EPOCHS", 3)
    config = site(tmp_path)
    fill(config, jobs(60, both=0.5))
    assert rows(evaluate(config, paper=True), "time")["paper"]["jobs"] == 12


@pytest.mark.parametrize("count", [0, 10, 14])
def test_too_few_jobs_are_an_error(tmp_path: Path, count: int) -> None:
    config = site(tmp_path)
    fill(config, jobs(count))
    with pytest.raises(TrainError, match="are too few: it takes 12 and 5; let more jobs finish"):
        evaluate(config)


def case(time_s: float, gpu_type: str = "a", key: str = "k", energy_kwh: float | None = None) -> Case:
    outcome = Outcome(1, 0, gpu_type, gpu_type, 1, "COMPLETED", 0, 1, time_s, energy_kwh)
    return Case(Label(key, "t", Reading(key, "", {}), outcome, Origin(1, key, "s", "n")), np.zeros(2, np.float32))


def estimate(p50: float | None, factor: float = 1.0) -> Estimate:
    time_s = None if p50 is None else Interval(p50 / factor, p50, p50 * factor)
    return Estimate("p", 1, time_s, None, Source.PROBE)


def test_figures_are_what_they_are_called() -> None:
    cases = [case(100), case(100), case(100), case(100)]
    made = [estimate(150, 2), estimate(100, 2), estimate(10, 2), estimate(None)]
    found = figures(cases, made, "time")
    assert (found["jobs"], found["unknown"]) == (4, 0.25)
    assert found["median_ape"] == pytest.approx(0.5) and found["p90_ape"] == pytest.approx(0.82)
    assert found["coverage80"] == pytest.approx(2 / 3) and found["width"] == pytest.approx(4)
    assert found["spearman"] is None  # all took as long
    assert figures(cases, made, "energy")["jobs"] == 0
    unmeasured = figures([case(5, energy_kwh=1.0), case(5)], [estimate(1), estimate(1)], "energy")
    assert (unmeasured["jobs"], unmeasured["unknown"], unmeasured["median_ape"]) == (1, 1.0, None)


@pytest.mark.parametrize(
    ("truth", "guess", "pairs", "right"),
    [
        ((100, 200), (10, 20), 1, 1.0),
        ((100, 200), (20, 10), 1, 0.0),
        ((100, 200), (10, 10), 1, 0.5),
        ((100, 105), (20, 10), 0, None),  # as good as equal
        ((100, 200), (10, None), 0, None),
    ],
)
def test_the_better_type(
    truth: tuple[float, float], guess: tuple[float | None, float | None], pairs: int, right: float | None
) -> None:
    cases = [case(truth[0], "a"), case(truth[1], "b"), case(9, "a", "other")]
    found = figures(cases, [*(estimate(g) for g in guess), estimate(1)], "time")
    assert (found["pairs"], found["better"]) == (pairs, right)


def test_ranks() -> None:
    assert spearman(np.array([1.0, 2, 3, 9]), np.array([1.0, 2, 3, 4])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == pytest.approx(-1)
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.9487, abs=1e-4)
    assert spearman(np.array([1.0, 2]), np.array([1.0, 2])) is None


def test_the_loss_is_least_for_the_true_quantiles() -> None:
    rng = np.random.default_rng(0)
    truths = rng.normal(3, 0.5, 4000)
    z = 1.2816 * 0.5
    true = Interval(math.exp(3 - z), math.exp(3), math.exp(3 + z))
    others = [
        replace(true, p50=math.exp(3.2)),
        Interval(math.exp(3 - 2 * z), math.exp(3), math.exp(3 + 2 * z)),
        Interval(math.exp(3 - z / 2), math.exp(3), math.exp(3 + z / 2)),
    ]
    best = np.mean([loss(t, true) for t in truths])
    assert all(np.mean([loss(t, other) for t in truths]) > best for other in others)
