"""What a contestant is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]
"""Texts to vectors of length one, of shape (n, d)."""


@dataclass(frozen=True)
class Contestant:
    """A way to make vectors, and what a site should know of it."""

    make: Callable[[Sequence[str]], Encode]
    """Ready to encode; the texts are those that a site has, for what is fitted on them."""
    weights: str
    """Where they come from."""
    licence: str
    trust: str
    """Whose bytes and whose code it runs."""
    fitted: bool = False


def unit(vectors: NDArray[np.floating]) -> Vectors:
    """Each row of length one; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
