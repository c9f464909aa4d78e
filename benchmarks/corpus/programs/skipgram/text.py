"""Generated text: words of a few topics that follow one another, frequencies as in Zipf's law."""

import numpy as np


def zipf(vocabulary):
    p = 1.0 / np.arange(1, vocabulary + 1)
    return p / p.sum()


def markov(rng, n_tokens, vocabulary, topics=20, stay=0.97):
    topic_of = rng.integers(topics, size=vocabulary)
    p = zipf(vocabulary)
    tokens = np.empty(n_tokens, dtype=np.int64)
    at = 0
    while at < n_tokens:
        length = min(int(rng.geometric(1 - stay)), n_tokens - at)
        words = np.flatnonzero(topic_of == rng.integers(topics))
        weights = p[words] / p[words].sum()
        tokens[at : at + length] = rng.choice(words, size=length, p=weights)
        at += length
    return tokens, topic_of
