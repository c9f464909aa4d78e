"""A trained network as plain matrices, run by numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Dense:
    """Dense layers with ReLU between them."""

    layers: tuple[Layer, ...]
    """Weights (outputs, inputs) and biases (outputs,) of each layer."""

    def __call__(self, inputs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Outputs of shape (n,) for ``inputs`` of shape (n, d)."""
        values = inputs.astype(np.float64)
        for weights, bias in self.layers[:-1]:
            values = np.maximum(values @ weights.T + bias, 0.0)
        weights, bias = self.layers[-1]
        return np.asarray(values @ weights.T + bias, np.float64)[:, 0]
