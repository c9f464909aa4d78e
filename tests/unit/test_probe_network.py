"""The paper's network: what torch really builds, and that the folded matrices give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from slurmcast.config import ProbeConfig
from slurmcast.model import Source
from slurmcast.probe import network, train
from slurmcast.probe.dense import Dense
from slurmcast.probe.features import Array
from tests.unit.probe_world import World


def test_layers_are_the_papers() -> None:
    layers = list(network.network(4608))
    shapes = [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, nn.Linear)]
    assert shapes == [(4608, 1024), (1024, 30), (30, 1)]
    assert [layer.num_features for layer in layers if isinstance(layer, nn.BatchNorm1d)] == [1024, 30, 1]
    assert [type(layer).__name__ for layer in layers] == ["Linear", "BatchNorm1d", "ReLU"] * 2 + [
        "Linear",
        "BatchNorm1d",
    ]


def test_optimizer_and_training_constants_are_the_papers() -> None:
    steps = network.optimizer(network.network(3))
    assert isinstance(steps, torch.optim.AdamW)
    assert [(g["lr"], g["weight_decay"]) for g in steps.param_groups] == [(1e-4, 1e-3)]
    assert (network.L1, network.BATCH, network.EPOCHS) == (1e-5, 8, 2000)
    assert (network.PATIENCE, network.MIN_DECREASE) == (30, 0.001)


@pytest.mark.parametrize(("count", "sizes"), [(16, [8, 8]), (17, [8, 9]), (18, [8, 8, 2]), (9, [9]), (2, [2])])
def test_no_batch_has_a_single_example(count: int, sizes: list[int]) -> None:
    parts = network.batches(count, torch.Generator().manual_seed(0))
    assert [len(part) for part in parts] == sizes
    assert sorted(torch.cat(parts).tolist()) == list(range(count))


def made(count: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, 6)) * [1, 5, 0.1, 1, 1, 0] + 3
    return inputs, 100 + 20 * inputs[:, 0] + inputs[:, 1]


def test_matrices_give_what_torch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EPOCHS", 20)
    kept: list[nn.Sequential] = []
    monkeypatch.setattr(network, "network", lambda d, build=network.network: kept.append(build(d)) or kept[-1])
    inputs, targets = made(33)
    dense = network.train(inputs, targets, seed=0)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(inputs.std(axis=0) > 0, inputs.std(axis=0), 1)
    with torch.no_grad():
        expected = kept[0](torch.from_numpy(scaled.astype(np.float32))).numpy()[:, 0] * targets.std() + targets.mean()
    assert not kept[0].training
    assert dense(inputs) == pytest.approx(expected, rel=1e-4)


def test_it_learns_and_is_deterministic() -> None:
    inputs, targets = made(60)
    one, two = (network.train(inputs, targets, seed=3) for _ in range(2))
    assert np.corrcoef(one(inputs), targets)[0, 1] > 0.95
    assert np.array_equal(one(inputs), two(inputs))


def test_training_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(network, "batches", lambda n, g, real=network.batches: drawn.append(n) or real(n, g))
    monkeypatch.setattr(network, "MIN_DECREASE", 1e9)
    network.train(*made(16), seed=0)
    assert len(drawn) == 1 + network.PATIENCE  # the first epoch falls below infinity, thirty more do not


def test_dense_is_relu_between_layers() -> None:
    first = (np.array([[1.0], [-1.0]], np.float32), np.array([0.0, 0.5], np.float32))
    last = (np.array([[2.0, 3.0]], np.float32), np.array([1.0], np.float32))
    assert Dense((first, last))(np.array([[2.0], [-1.0]])).tolist() == [5.0, 5.5]


@pytest.mark.parametrize("kind", ["paper", "log", "log+numbers"])
def test_kinds_train_and_estimate(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EPOCHS", 5)
    world = World(0, kinds=3, scripts=2)
    examples = world.history(40, world.scripts, both=0.5)
    model = train(examples, ProbeConfig(kind=kind), encoder="test").model  # type: ignore[arg-type]
    first = examples[0]
    estimates = model.predict(first.vector, first.numbers, {"fast": 1, "slow": 1})
    for e in estimates:
        assert e.source is Source.PROBE
        assert e.time_s and e.energy_kwh
        assert 0 < e.time_s.p10 <= e.time_s.p50 <= e.time_s.p90
    more = model.predict(first.vector, {**first.numbers, "epochs": 80 * first.numbers["epochs"]}, {"fast": 1})
    assert (more[0].time_s != estimates[0].time_s) == (kind == "log+numbers")
