"""What every kind of probe is: something that predicts logarithms of targets for jobs on GPU types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slurmcast.probe.intervals import Predictions

Tensors = dict[str, NDArray[Any]]


class Asked(Protocol):
    """A job on a GPU type, as a prediction needs it; :class:`slurmcast.probe.examples.Sample` is one too."""

    @property
    def vector(self) -> NDArray[np.float32]: ...
    @property
    def numbers(self) -> Mapping[str, float]: ...
    @property
    def gpus(self) -> int: ...
    @property
    def type(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Query:
    """A job on a GPU type that is asked for."""

    vector: NDArray[np.float32]
    numbers: Mapping[str, float]
    gpus: int
    type: str


class Estimator(Protocol):
    """A trained probe without its intervals."""

    @property
    def types(self) -> tuple[str, ...]:
        """The GPU types that it knows."""
        ...

    def predict(self, asked: Sequence[Asked]) -> Predictions:
        """Predictions for jobs on types that it knows."""
        ...

    def parts(self) -> tuple[Tensors, dict[str, Any]]:
        """Tensors and JSON-ready settings, from which the same estimator is made again."""
        ...


@dataclass(frozen=True)
class Trained:
    """An estimator with its predictions for its own examples, made without them."""

    estimator: Estimator
    without_key: Predictions
    """Each made without any run of its key."""
    without_sample: Predictions | None
    """Each made without its own runs, but with the other ones of its key; None where that takes too long."""
    without_cluster: Predictions | None
    """None where no clusters were given, or leaving them out would take too long."""
