#!/usr/bin/env python3
"""Grid search of an RBF support vector machine by hand: C times gamma, each by cross-validation.

Usage: grid.py SAMPLES FEATURES N_C N_GAMMA FOLDS
"""
import sys
from itertools import product

import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def load(samples, features):
    rng = np.random.RandomState(5)
    X, y = make_moons(samples, noise=0.3, random_state=5)
    return np.hstack([X, 0.5 * rng.randn(samples, features - 2)]), y


def score(C, gamma, X, y, folds):
    right = 0
    for train, test in KFold(folds, shuffle=True, random_state=0).split(X):
        scaler = StandardScaler().fit(X[train])
        svm = SVC(C=C, gamma=gamma, cache_size=100).fit(scaler.transform(X[train]), y[train])
        right += (svm.predict(scaler.transform(X[test])) == y[test]).sum()
    return right / len(X)


if __name__ == "__main__":
    samples, features, n_c, n_gamma, folds = (int(s) for s in sys.argv[1:])
    X, y = load(samples, features)
    table = {}
    for C, gamma in product(np.logspace(-1, 2, n_c), np.logspace(-2, 0, n_gamma) / features):
        table[C, gamma] = score(C, gamma, X, y, folds)
        print("C %8.3f  gamma %7.4f  accuracy %.4f" % (C, gamma, table[C, gamma]))
    print("best", max(table, key=table.get), max(table.values()))
