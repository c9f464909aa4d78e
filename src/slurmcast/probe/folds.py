"""Folds for cross-validation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

FOLDS = 5


def folds(groups: Sequence[Hashable], rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold of each example, 0 to :data:`FOLDS` - 1, of shape (n,): what is of one group lies in one fold."""
    names = list(dict.fromkeys(groups))
    number = dict(zip(names, rng.permutation(len(names)) % FOLDS, strict=True))
    return np.array([number[group] for group in groups], np.int64)
