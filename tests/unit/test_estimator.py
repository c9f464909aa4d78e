"""The daemon's choice between prior, history and probe, with a real encoder's cache and a trained model."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import AlignConfig, Config
from slurmcast.daemon.estimator import Estimator, Work
from slurmcast.encoder.cache import VectorCache
from slurmcast.model import Estimate, Reading, Source
from slurmcast.probe.history import Kin, Run
from slurmcast.train import known_jobs, opened, train_from_store
from tests.unit.store_world import BEGAN, fill, jobs, site

LATER = BEGAN + 10**6


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A site with a model, made from 100 jobs."""
    config = site(tmp_path_factory.mktemp("site"))
    fill(config, jobs(100))
    assert train_from_store(config)["promoted"]
    return config


@pytest.fixture(scope="module")
def reading(trained: Config) -> tuple[Reading, str]:
    """A script that the model knows, and where its vector lies."""
    with opened(trained) as store:
        label = known_jobs(trained, store).cases[-1].label
    return replace(label.reading, key="new"), label.text_key


def given(config: Config, work: Work, *past: Run) -> tuple[Estimate, ...]:
    estimator = Estimator(config)
    estimator.reload()
    return estimator.estimate(work, past)[0]


def run(reading: Reading, ended: float, kin: Kin = Kin.WORK, time_s: float = 500.0) -> Run:
    return Run(kin, reading.numbers, 1, "a100", time_s, None, ended)


@pytest.mark.parametrize(
    ("kin", "ended", "count", "source"),
    [
        (Kin.WORK, LATER, 0, Source.PROBE),
        (Kin.WORK, LATER, 200, Source.HISTORY),
        (Kin.WORK, BEGAN, 200, Source.PROBE),  # the model has learned from these
        (Kin.NAME, LATER, 1, Source.PROBE),  # less sure than the model
    ],
)
def test_news_that_are_surer_go_before_the_probe(
    trained: Config, reading: tuple[Reading, str], kin: Kin, ended: float, count: int, source: Source
) -> None:
    runs = [run(reading[0], ended, kin)] * count + [replace(run(reading[0], ended, kin), type="a6000")] * count
    found = given(trained, Work(*reading), *runs)
    assert [e.source for e in found] == [source, source]
    if source is Source.HISTORY:
        assert found[0].time_s and found[0].time_s.p50 == pytest.approx(500)


def test_only_news_that_history_rests_on_count(trained: Config, reading: tuple[Reading, str]) -> None:
    old = [run(reading[0], BEGAN)] * 200 + [replace(run(reading[0], BEGAN), type="a6000")] * 200
    found = given(trained, Work(*reading), *old, run(reading[0], LATER, Kin.NAME))
    assert {e.source for e in found} == {Source.PROBE}


def test_without_a_vector_history_speaks(trained: Config, reading: tuple[Reading, str]) -> None:
    found = given(trained, Work(reading[0], "unknown"), run(reading[0], BEGAN))
    assert {e.source for e in found} == {Source.HISTORY}
    assert {e.source for e in given(trained, Work(reading[0], "unknown"))} == {Source.PRIOR}


def test_where_the_encoder_makes_other_vectors_than_the_model_takes_history_speaks(
    trained: Config, reading: tuple[Reading, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(VectorCache(trained.paths.state_dir / "embeddings.db")) as cache:
        cache.put({"short": np.ones(16, np.float32)})
    found = given(trained, Work(reading[0], "short"), run(reading[0], BEGAN))
    assert {e.source for e in found} == {Source.HISTORY}
    assert "takes vectors of 32 numbers, the encoder makes 16: run slurmcast train" in caplog.text
    align = AlignConfig(url="http://127.0.0.1:9/v1", model="m", exemplars=tmp_path)
    estimator = Estimator(replace(trained, align=align))
    estimator.reload()
    assert not estimator.align(Work(replace(reading[0], text="x"), "short"))


def test_the_limit_of_a_job_that_may_be_moved_holds_wherever_it_may_go(trained: Config) -> None:
    own = Reading("key", "", {}, gpus_total=1, partitions=("fast",), time_limit_s=3600)
    estimator = Estimator(trained)

    def latest(reading: Reading) -> dict[str, float]:
        return {e.partition: e.time_s.p90 for e in estimator.prior(reading) if e.time_s}

    assert latest(own)["fast"] == 3600 < latest(own)["slow"]
    assert latest(replace(own, opted_in=True))["fast"] < latest(replace(own, opted_in=True))["slow"] == 3600
