"""The paper's network in torch (appendix A.2): imported only to train; what is trained is kept as plain matrices.

Dense layers of 1024, 30 and 1 units, each with batch normalization, ReLU between them (an output that must take both
signs, as standardised targets do, can't pass a ReLU). AdamW with rate 1e-4 and weight decay 1e-3, an L1 penalty of 1e-5
on the dense weights, batches of 8, mean squared error, at most 2,000 epochs; training stops early when the epoch's mean
loss (penalty included) has not fallen by more than 0.001 below its best for 30 epochs in a row. Inputs and targets are
standardised by the training set.

Batch normalization can't learn from one example, so where the last batch of an epoch would hold a single one, it joins
the batch before it (of nine, then).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from slurmcast.probe.dense import Dense
from slurmcast.probe.features import Array

HIDDEN = (1024, 30)
RATE = 1e-4
WEIGHT_DECAY = 1e-3
L1 = 1e-5
BATCH = 8
EPOCHS = 2000
PATIENCE = 30
MIN_DECREASE = 1e-3


def network(dimensions: int) -> nn.Sequential:
    """The untrained network for inputs of shape (n, dimensions); its outputs have shape (n, 1)."""
    first, second = HIDDEN
    return nn.Sequential(
        nn.Linear(dimensions, first),
        nn.BatchNorm1d(first),
        nn.ReLU(),
        nn.Linear(first, second),
        nn.BatchNorm1d(second),
        nn.ReLU(),
        nn.Linear(second, 1),
        nn.BatchNorm1d(1),
    )


def optimizer(model: nn.Module) -> torch.optim.AdamW:
    """The optimizer of the paper for ``model``."""
    return torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)


def batches(count: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Indexes of one epoch's batches in random order; none has a single example."""
    parts = list(torch.split(torch.randperm(count, generator=generator), BATCH))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def train(inputs: NDArray[np.floating], targets: Array, seed: int) -> Dense:
    """Train on ``inputs`` (n, d) and ``targets`` (n,), n >= 2, with all random numbers drawn from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(inputs.shape[1])
    centre, scale = _standard(inputs)
    target_centre, target_scale = _standard(targets[:, None])
    x = torch.from_numpy(((inputs - centre) / scale).astype(np.float32))
    y = torch.from_numpy(((targets[:, None] - target_centre) / target_scale).astype(np.float32))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of 8 are too small for more, see slurmcast.probe.threads
    try:
        _descend(model, x, y, torch.Generator().manual_seed(seed))
    finally:
        torch.set_num_threads(threads)
    return _folded(model, (centre, scale), (target_centre, target_scale))


def _descend(model: nn.Sequential, x: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> None:
    steps = optimizer(model)
    weights = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
    best, since = float("inf"), 0
    model.train()
    for _ in range(EPOCHS):
        total = 0.0
        for index in batches(len(x), generator):
            steps.zero_grad()
            penalty = torch.stack([weight.abs().sum() for weight in weights]).sum()
            loss = nn.functional.mse_loss(model(x[index]), y[index]) + L1 * penalty
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
            total += loss.item() * len(index)
        mean = total / len(x)
        best, since = (mean, 0) if mean < best - MIN_DECREASE else (best, since + 1)
        if since >= PATIENCE:
            break
    model.eval()


def _standard(values: NDArray[np.floating]) -> tuple[Array, Array]:
    """Mean and standard deviation of each column; a column that doesn't vary keeps its scale."""
    spread = values.std(axis=0).astype(np.float64)
    return values.mean(axis=0).astype(np.float64), np.where(spread > 0, spread, 1.0)


def _folded(model: nn.Sequential, inputs: tuple[Array, Array], targets: tuple[Array, Array]) -> Dense:
    """``model`` with its batch normalizations and the two scalings folded into the dense layers."""
    state = {name: tensor.numpy().astype(np.float64) for name, tensor in model.state_dict().items()}
    layers: list[tuple[Array, Array]] = []
    for index, layer in enumerate(model):
        if isinstance(layer, nn.BatchNorm1d):
            norm, dense = f"{index}.", f"{index - 1}."
            gain = state[norm + "weight"] / np.sqrt(state[norm + "running_var"] + layer.eps)
            bias = (state[dense + "bias"] - state[norm + "running_mean"]) * gain + state[norm + "bias"]
            layers.append((state[dense + "weight"] * gain[:, None], bias))
    (first, first_bias), (last, last_bias) = layers[0], layers[-1]
    first = first / inputs[1]
    layers[0] = (first, first_bias - first @ inputs[0])
    layers[-1] = (last * targets[1], last_bias * targets[1] + targets[0])
    return Dense(tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers))
