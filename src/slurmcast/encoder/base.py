"""What every encoder is: code in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from slurmcast.config import EncoderConfig

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


def load(config: EncoderConfig) -> Encoder:
    """The encoder that the configuration names, ready to use. Raises :class:`EncoderError`."""
    match config.kind:
        case "minilm":
            from slurmcast.encoder.minilm import MiniLM

            return MiniLM()
        case "starcoder":
            from slurmcast.encoder.starcoder import StarCoder

            return StarCoder.from_folder(config.starcoder)
        case "remote":
            from slurmcast.encoder.remote import Remote

            return Remote(config.remote)


def name_of(config: EncoderConfig) -> str:
    """The name of the encoder that :func:`load` would make, without its memory where that is large.

    Raises :class:`EncoderError`.
    """
    if config.kind == "starcoder":
        from slurmcast.encoder import starcoder

        return starcoder.name_of(config.starcoder)
    return load(config).name


def printable(text: str) -> str:
    """``text`` with "?" for each byte that was no UTF-8 (surrogate escapes): tokenizers accept only valid Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")
