"""Lloyd's k-means with k-means++ seeding; several restarts, the best is kept. A fixed number of iterations each."""

import os
from argparse import ArgumentParser
from dataclasses import dataclass

import numpy as np


@dataclass
class Fit:
    centers: np.ndarray
    inertia: float


def blobs(rng: np.random.Generator, points: int, dims: int, clusters: int) -> np.ndarray:
    where = rng.uniform(-8, 8, size=(clusters, dims))
    return where[rng.integers(clusters, size=points)] + rng.normal(size=(points, dims))


def squared_distances(data: np.ndarray, norms: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return norms[:, None] - 2 * data @ centers.T + (centers**2).sum(axis=1)


def seed_centers(rng: np.random.Generator, data: np.ndarray, k: int) -> np.ndarray:
    centers = [data[rng.integers(len(data))]]
    nearest = ((data - centers[0]) ** 2).sum(axis=1)
    while len(centers) < k:
        chosen = data[rng.choice(len(data), p=nearest / nearest.sum())]
        centers.append(chosen)
        nearest = np.minimum(nearest, ((data - chosen) ** 2).sum(axis=1))
    return np.array(centers)


def lloyd(rng: np.random.Generator, data: np.ndarray, k: int, iterations: int) -> Fit:
    norms = (data**2).sum(axis=1)
    centers = seed_centers(rng, data, k)
    for _ in range(iterations):
        distances = squared_distances(data, norms, centers)
        owner = distances.argmin(axis=1)
        counts = np.bincount(owner, minlength=k)
        sums = np.stack([np.bincount(owner, weights=column, minlength=k) for column in data.T], axis=1)
        filled = counts > 0
        centers[filled] = sums[filled] / counts[filled, None]
    return Fit(centers, float(distances.min(axis=1).sum()))


if __name__ == "__main__":
    cli = ArgumentParser()
    cli.add_argument("-k", "--clusters", type=int, default=32)
    cli.add_argument("-n", "--points", type=int, default=30_000)
    cli.add_argument("-d", "--dims", type=int, default=16)
    cli.add_argument("-i", "--iterations", type=int, default=20)
    cli.add_argument("-r", "--restarts", type=int, default=int(os.environ.get("RESTARTS", "1")))
    o = cli.parse_args()

    generator = np.random.default_rng(2024)
    data = blobs(generator, o.points, o.dims, o.clusters)
    fits = []
    for attempt in range(o.restarts):
        fits.append(lloyd(generator, data, o.clusters, o.iterations))
        print(f"restart {attempt}: inertia per point {fits[-1].inertia / o.points:.4f}")
    print(f"best {min(f.inertia for f in fits) / o.points:.4f}")
