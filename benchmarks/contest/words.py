"""Contestants without a pre-trained network: random projections, and a factorisation of the site's own scripts."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from contest.base import Encode, Vectors, unit

PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SIGNS = 4
"""Coordinates that one n-gram touches."""


def pieces(text: str) -> list[str]:
    """Words of code: identifiers split at case and underscores, lower case; every number is the same word."""
    return ["0" if word[0].isdigit() else word.lower() for word in PIECE.findall(text)]


def ngrams(dimensions: int) -> Encode:
    """Words and pairs of them, square roots of counts, projected by signs that a hash draws: nothing is fitted."""

    def vector(text: str) -> Vectors:
        found = np.zeros(dimensions, np.float32)
        for gram, count in Counter(_grams(pieces(text))).items():
            draws = np.frombuffer(hashlib.blake2b(gram, digest_size=4 * SIGNS).digest(), "<u4")
            np.add.at(found, draws % dimensions, np.where(draws >> 31, count**0.5, -(count**0.5)))
        return found

    return lambda texts: unit(np.stack([vector(text) for text in texts]))


def _grams(words: Sequence[str]) -> Iterator[bytes]:
    yield from (word.encode() for word in words)
    yield from (f"{a} {b}".encode() for a, b in itertools.pairwise(words))


def factors(dimensions: int, texts: Sequence[str]) -> Encode:
    """TF-IDF and truncated SVD, fitted on ``texts``."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(analyzer=pieces, sublinear_tf=True)
    table = words.fit_transform(texts)
    svd = TruncatedSVD(min(dimensions, *(n - 1 for n in table.shape)), random_state=0).fit(table)

    def encode(asked: Sequence[str]) -> Vectors:
        found: NDArray[np.float64] = svd.transform(words.transform(asked))
        return unit(found.astype(np.float32))

    return encode
