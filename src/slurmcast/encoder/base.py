"""What every encoder is: code in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class EncoderError(Exception):
    """The encoder can't be used; the message says why and what to do."""


class EncoderAway(EncoderError):
    """It can't be used now, whatever the text; the same text may be encoded later."""


class Encoder(Protocol):
    """A frozen model that turns texts into vectors of one fixed length (paper, section 2.1)."""

    @property
    def name(self) -> str:
        """Identity of the vectors: kind, weights and pooling. Two encoders of one name give the same vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of each vector; 0 where that isn't known before the first."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """float32 array of shape (len(texts), dimensions); a text's vector doesn't depend on its neighbours.

        Raises :class:`EncoderError` where the vectors can't be had.
        """
        ...


@runtime_checkable
class Closable(Protocol):
    """An encoder that may have to wait for something."""

    def close(self) -> None:
        """End what is under way, in whatever thread, with :class:`EncoderError`; nothing is encoded any more."""
        ...


def printable(text: str) -> str:
    """``text`` with "?" for each byte that was no UTF-8 (surrogate escapes): tokenizers accept only valid Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")
