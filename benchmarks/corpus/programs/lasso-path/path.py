"""The lasso path by coordinate descent, k-fold: a fixed number of sweeps for each penalty, each fit starts from the last."""
import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

warnings.filterwarnings("ignore", category=ConvergenceWarning)


def simulate(n, p, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 1:] += 0.5 * X[:, :-1]  # neighbours correlate
    beta = np.zeros(p)
    beta[rng.choice(p, p // 10, replace=False)] = rng.normal(0, 2, p // 10)
    return X, X @ beta + 3 * rng.standard_normal(n)


def path_errors(X, y, X_val, y_val, alphas, sweeps):
    model = Lasso(warm_start=True, tol=0, max_iter=sweeps)
    errors = np.empty(len(alphas))
    for i, alpha in enumerate(alphas):
        model.set_params(alpha=alpha)
        model.fit(X, y)
        errors[i] = np.mean((model.predict(X_val) - y_val) ** 2)
    return errors


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    for name, default in (("n", 1500), ("p", 150), ("alphas", 25), ("sweeps", 50), ("folds", 5), ("seed", 0)):
        ap.add_argument(f"--{name}", type=int, default=default)
    a = ap.parse_args()
    X, y = simulate(a.n, a.p, a.seed)
    fold_of = np.arange(a.n) % a.folds
    alphas = np.geomspace(2, 0.01, a.alphas)
    errors = np.zeros(a.alphas)
    for k in range(a.folds):
        out = fold_of == k
        errors += path_errors(X[~out], y[~out], X[out], y[out], alphas, a.sweeps) / a.folds
        print(f"fold {k} done, so far {errors.min() * a.folds / (k + 1):.4f}")
    best = errors.argmin()
    print(f"alpha {alphas[best]:.4f} mse {errors[best]:.4f}")


if __name__ == "__main__":
    main()
