"""Vectors from a server with the OpenAI-style ``/v1/embeddings``: vLLM, text-embeddings-inference, llama.cpp, others.

Nothing is left out: a longer text is read in overlapping windows of ``max_chars`` characters, whose vectors, each of
length one, are averaged with their lengths as weights. The text's vector is of length one as well.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurmcast.config import RemoteConfig
from slurmcast.encoder.base import EncoderAway, EncoderError, Vectors, printable
from slurmcast.encoder.windows import windows
from slurmcast.openai_client import OpenAIClient, OpenAIError

log = logging.getLogger(__name__)

OF_THE_TEXT = frozenset({400, 413, 422, 500})
"""Statuses by which servers refuse a text, too long a one for example (llama.cpp: 500); all others concern any text."""
NOTHING = "\n"
"""Stands for an empty text, which servers refuse."""


class Remote:
    """The encoder ``remote``. May be used by several threads at once; contacts nobody before the first text."""

    def __init__(self, config: RemoteConfig, client: OpenAIClient | None = None) -> None:
        """``client``: the one to use, by default one as ``config`` describes it. Raises :class:`EncoderError`."""
        try:
            self._client = client or OpenAIClient(
                config.url, key_file=config.key_file, timeout_s=config.timeout_s, retries=config.retries
            )
        except OpenAIError as error:
            raise EncoderError(f"encoder.remote: {error}") from None
        self._config = config
        self._dimensions = config.dimensions
        length = f"-{config.dimensions}" if config.dimensions else ""
        self.name = f"remote-{config.model}{length}-mean{config.max_chars}.{config.overlap_chars}"

    @property
    def dimensions(self) -> int:
        """Length of each vector; 0 until the server has told it, where the configuration doesn't."""
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See :meth:`slurmcast.encoder.base.Encoder.encode`.

        Raises :class:`EncoderAway` where the server is, and :class:`EncoderError` where it refuses one of the texts.
        """
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        try:
            return self._encode(texts)
        except (ValueError, OverflowError) as error:
            raise EncoderError(f"{self._client.url}: {error}; is this a server of embeddings, of one a text?") from None

    def close(self) -> None:
        """End requests under way with an error; none can be made any more."""
        self._client.close()

    def _encode(self, texts: Sequence[str]) -> Vectors:
        cut = [windows(len(text), self._config.max_chars, self._config.overlap_chars) for text in texts]
        pieces = [
            printable(text[start:end]) or NOTHING
            for text, spans in zip(texts, cut, strict=True)
            for start, end in spans
        ]
        size = self._config.batch_size
        parts = iter(np.concatenate([self._batch(pieces[n : n + size]) for n in range(0, len(pieces), size)]))
        return np.stack(
            [_unit(np.sum([max(end - start, 1) * next(parts) for start, end in spans], 0)) for spans in cut]
        )

    def _batch(self, pieces: list[str]) -> Vectors:
        """Vectors of length one for what the server takes at a time."""
        body = {"model": self._config.model, "input": pieces, "encoding_format": "float"}
        try:
            answer = self._client.post("/embeddings", body)
        except OpenAIError as error:
            remedy = "; is encoder.remote.max_chars too large for it?" if error.status in OF_THE_TEXT else ""
            raise (EncoderError if error.status in OF_THE_TEXT else EncoderAway)(f"{error}{remedy}") from None
        vectors = _vectors(answer, len(pieces))
        self._check(vectors.shape[1])
        return vectors

    def _check(self, dimensions: int) -> None:
        if not self._dimensions:
            log.info("%s: vectors of %d dimensions", self._client.url, dimensions)
            self._dimensions = dimensions
        if dimensions != self._dimensions:
            raise EncoderAway(
                f"{self._client.url}: vectors of {dimensions} dimensions, not {self._dimensions}; if it serves another "
                "model now, correct encoder.remote.model and encoder.remote.dimensions"
            )


def _vectors(answer: dict[str, Any], count: int) -> Vectors:
    """The vectors of an answer in the order of their ``index``, each of length one. Raises ValueError."""
    data = answer.get("data")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ValueError("the answer has no list data")
    by_index = {item.get("index"): item.get("embedding") for item in data if type(item.get("index")) is int}
    if len(data) != count or set(by_index) != set(range(count)):
        raise ValueError(f"{len(data)} vectors for {count} texts, or not one for each")
    rows = [_row(by_index[index]) for index in range(count)]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("vectors of different lengths")
    return np.stack([_unit(row) for row in rows])


def _row(embedding: Any) -> NDArray[np.float64]:
    if not isinstance(embedding, list) or not all(type(number) in (int, float) for number in embedding):
        raise ValueError("a vector that is no list of numbers")
    return np.array(embedding, np.float64)


def _unit(vector: NDArray[np.floating]) -> Vectors:
    with np.errstate(over="ignore"):
        length = np.linalg.norm(vector)
    if not 0 < length < np.inf:  # false for NaN as well
        raise ValueError("a vector that is empty, zero or not finite")
    unit: Vectors = (vector / length).astype(np.float32)
    return unit
