"""Two models in turn, numpy alone: k-means places the centres of radial basis functions, then a one-hidden-layer
network is trained on their responses by RMSprop.

pipeline.py kmeans:iterations=20,clusters=50 net:epochs=5,hidden=64,batch=100 data:samples=10000,dims=10
"""
import sys

import numpy as np

DEFAULTS = {
    "data": {"samples": 10000, "dims": 10},
    "kmeans": {"iterations": 20, "clusters": 50},
    "net": {"epochs": 5, "hidden": 64, "batch": 100},
}


def settings(words):
    chosen = {stage: dict(values) for stage, values in DEFAULTS.items()}
    for word in words:
        stage, _, pairs = word.partition(":")
        for pair in pairs.split(","):
            key, value = pair.split("=")
            assert key in chosen[stage], f"{stage} has no {key}"
            chosen[stage][key] = int(value)
    return chosen


class KMeans:
    def __init__(self, clusters, iterations):
        self.k, self.iterations = clusters, iterations

    def fit(self, x, rng):
        self.centers = x[rng.choice(len(x), self.k, replace=False)]
        for i in range(self.iterations):
            near = self.distances(x).argmin(1)
            for k in range(self.k):
                mine = x[near == k]
                if len(mine):
                    self.centers[k] = mine.mean(0)
        print("k-means: mean squared distance %.4f" % self.distances(x).min(1).mean())
        return self

    def distances(self, x):
        return ((x**2).sum(1)[:, None] - 2 * x @ self.centers.T + (self.centers**2).sum(1)).clip(0)


class Network:
    def __init__(self, n_in, hidden, rng):
        self.w = [rng.normal(size=(n_in, hidden)) / n_in**0.5, rng.normal(size=(hidden, 1)) / hidden**0.5]
        self.cache = [np.ones_like(w) * 1e-4 for w in self.w]

    def step(self, x, y, lr=1e-3):
        h = np.maximum(x @ self.w[0], 0)
        error = h @ self.w[1] - y
        g1 = h.T @ error / len(x)
        g0 = x.T @ ((error @ self.w[1].T) * (h > 0)) / len(x)
        for i, g in enumerate((g0, g1)):
            self.cache[i] = 0.99 * self.cache[i] + 0.01 * g**2
            self.w[i] -= lr * g / np.sqrt(self.cache[i])
        return float((error**2).mean())


def main():
    cfg = settings(sys.argv[1:])
    rng = np.random.default_rng(55)
    x = rng.uniform(-1, 1, size=(cfg["data"]["samples"], cfg["data"]["dims"]))
    y = np.exp(-3 * (x[:, :3] ** 2).sum(1, keepdims=True)) + 0.5 * np.sign(x[:, 3:4] * x[:, 4:5])
    kmeans = KMeans(cfg["kmeans"]["clusters"], cfg["kmeans"]["iterations"]).fit(x, rng)
    d = kmeans.distances(x)
    features = np.exp(-d / d.mean())
    features = (features - features.mean(0)) / features.std(0)
    net = Network(features.shape[1], cfg["net"]["hidden"], rng)
    size = cfg["net"]["batch"]
    for epoch in range(cfg["net"]["epochs"]):
        order = rng.permutation(len(x))
        losses = [net.step(features[b], y[b]) for b in np.array_split(order, len(x) // size)]
        print("network epoch %d: mse %.4f" % (epoch, np.mean(losses)))


main()
