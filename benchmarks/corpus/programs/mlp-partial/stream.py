"""A stream of drifting data in chunks; the network sees each chunk a few times and is tested on the next one first."""
from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.neural_network import MLPClassifier


def stream(chunks: int, chunk_size: int, n_features: int, n_classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(31)
    centers = 0.6 * rng.standard_normal((n_classes, n_features))
    for _ in range(chunks):
        centers += 0.05 * rng.standard_normal(centers.shape)
        y = rng.integers(n_classes, size=chunk_size)
        yield centers[y] + 2 * rng.standard_normal((chunk_size, n_features)), y


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--chunk-size", type=int, default=2000)
    parser.add_argument("--epochs-per-chunk", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--features", type=int, default=40)
    parser.add_argument("--classes", type=int, default=6)
    args = parser.parse_args()

    net = MLPClassifier([args.hidden] * args.depth, learning_rate_init=2e-3, batch_size=100, random_state=0)
    accuracies: list[float] = []
    for number, (X, y) in enumerate(stream(args.chunks, args.chunk_size, args.features, args.classes)):
        if number:
            accuracies.append(net.score(X, y))
        for _ in range(args.epochs_per_chunk):
            net.partial_fit(X, y, classes=np.arange(args.classes))
        if number % 5 == 4:
            print(f"chunk {number + 1}: loss {net.loss_:.4f}, accuracy ahead {np.mean(accuracies[-5:]):.4f}")
    print(f"mean accuracy {np.mean(accuracies):.4f}")


main()
