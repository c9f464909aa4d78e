"""The plain rival of vectors: words weighed by rarity and a ridge regression (scikit-learn)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeCV

Array = NDArray[np.float64]


class WordRidge:
    """TF-IDF of all ``texts``, and one regression for each GPU type and target that was measured twice.

    ``types``: of each text, (n,); ``truth``: logarithms, (n, targets), NaN where nothing was measured.
    """

    def __init__(self, texts: Sequence[str], types: Sequence[str], truth: Array) -> None:
        self._words = TfidfVectorizer(token_pattern=r"[A-Za-z_]+|\d+(?:\.\d+)?", ngram_range=(1, 2), sublinear_tf=True)
        rows = self._words.fit_transform(texts)
        self._targets = truth.shape[1]
        self._models: dict[tuple[str, int], RidgeCV] = {}
        for gpu_type in set(types):
            of_type = np.array(types) == gpu_type
            for target in range(self._targets):
                there = np.flatnonzero(of_type & np.isfinite(truth[:, target]))
                if len(there) > 1:
                    model = RidgeCV(np.logspace(-4, 2, 13)).fit(rows[there], truth[there, target])
                    self._models[gpu_type, target] = model

    def predict(self, texts: Sequence[str], types: Sequence[str]) -> Array:
        """Logarithms, (m, targets), NaN where there is no regression."""
        rows = self._words.transform(texts)
        found = np.full((len(texts), self._targets), np.nan)
        for (gpu_type, target), model in self._models.items():
            of_type = np.flatnonzero(np.array(types) == gpu_type)
            if len(of_type):
                found[of_type, target] = model.predict(rows[of_type])
        return found
