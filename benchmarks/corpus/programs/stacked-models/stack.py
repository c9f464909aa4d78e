"""First extra trees, then gradient boosting on what the trees left over."""
import argparse
import os

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.metrics import root_mean_squared_error

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--n-estimators", type=int, default=30)
parser.add_argument("--boosting-rounds", type=int, default=50)
parser.add_argument("--n-samples", type=int, default=4000)
parser.add_argument("--n-features", type=int, default=16)
parser.add_argument("--max-features", type=float, default=1.0)
parser.add_argument("--min-samples-leaf", type=int, default=3)
args = parser.parse_args()

rng = np.random.RandomState(88)
X = rng.uniform(size=(args.n_samples, args.n_features))
y = 4 * np.sin(6 * X[:, 0]) + 8 * (X[:, 1] - 0.5) ** 2 + X[:, 2] * X[:, 3] * 5 + rng.normal(scale=0.5, size=len(X))
half, test = args.n_samples // 2, args.n_samples * 9 // 10

trees = ExtraTreesRegressor(
    args.n_estimators,
    max_features=args.max_features,
    min_samples_leaf=args.min_samples_leaf,
    n_jobs=int(os.environ.get("OMP_NUM_THREADS", 1)),
    random_state=0,
)
trees.fit(X[:half], y[:half])
first = trees.predict(X[half:])
print("extra trees: rmse", round(root_mean_squared_error(y[test:], first[test - half :]), 4))

residual = y[half:test] - first[: test - half]
boosting = HistGradientBoostingRegressor(max_iter=args.boosting_rounds, early_stopping=False, learning_rate=0.05)
boosting.fit(np.column_stack([X[half:test], first[: test - half]]), residual)
second = first[test - half :] + boosting.predict(np.column_stack([X[test:], first[test - half :]]))
print("with boosting: rmse", round(root_mean_squared_error(y[test:], second), 4))
