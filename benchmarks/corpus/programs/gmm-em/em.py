"""Gaussian mixture with full covariances by expectation maximisation.

    em.py N DIM COMPONENTS ITERATIONS
"""
import sys
from math import log, pi

import numpy as np


def sample(n, dim, components, rng):
    means = 3 * rng.standard_normal((components, dim))
    mixing = rng.standard_normal((components, dim, dim)) / dim**0.5
    k = rng.integers(components, size=n)
    return means[k] + np.einsum("nij,nj->ni", mixing[k], rng.standard_normal((n, dim)))


def log_gauss(x, mean, cov):
    chol = np.linalg.cholesky(cov)
    white = np.linalg.inv(chol) @ (x - mean).T
    return -0.5 * ((white**2).sum(axis=0) + len(mean) * log(2 * pi)) - np.log(np.diag(chol)).sum()


def e_step(x, weight, mean, cov):
    joint = np.stack([log(w) + log_gauss(x, m, c) for w, m, c in zip(weight, mean, cov)], axis=1)
    top = joint.max(axis=1, keepdims=True)
    evidence = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
    return np.exp(joint - evidence[:, None]), evidence.mean()


def m_step(x, resp):
    mass = resp.sum(axis=0)
    mean = resp.T @ x / mass[:, None]
    cov = []
    for k in range(len(mass)):
        d = x - mean[k]
        cov.append((resp[:, k, None] * d).T @ d / mass[k] + 1e-3 * np.eye(x.shape[1]))
    return mass / len(x), mean, cov


def main(n, dim, components, iterations):
    rng = np.random.default_rng(17)
    x = sample(n, dim, components, rng)
    weight = np.full(components, 1 / components)
    mean = x[rng.choice(n, components, replace=False)]
    cov = [np.cov(x.T)] * components
    for i in range(iterations):
        resp, likelihood = e_step(x, weight, mean, cov)
        weight, mean, cov = m_step(x, resp)
        if i % 5 == 4:
            print(f"{i + 1:4d} log likelihood {likelihood:.5f}")
    print(f"final log likelihood {e_step(x, weight, mean, cov)[1]:.5f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
