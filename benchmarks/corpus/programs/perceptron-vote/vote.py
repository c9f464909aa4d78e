"""An ensemble of averaged perceptrons, each on a bootstrap sample with a random part of the features; majority vote."""
import argparse
import random

import numpy as np


class AveragedPerceptron:
    def __init__(self, dim):
        self.w = np.zeros(dim)
        self.total = np.zeros(dim)
        self.updates = 0

    def fit(self, X, y, epochs):
        for _ in range(epochs):
            for xi, yi in zip(X, y):
                if yi * xi.dot(self.w) <= 0:
                    self.w = self.w + yi * xi
                    self.updates += 1
                self.total += self.w
        return self

    def predict(self, X):
        return np.sign(X @ self.total)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--members", type=int, required=True)
    ap.add_argument("--epochs", type=int, required=True)
    ap.add_argument("--examples", type=int, default=8000)
    ap.add_argument("--features", type=int, default=60)
    ap.add_argument("--share", type=float, default=0.6, help="of the features that a member sees")
    args = ap.parse_args()
    random.seed(1)
    rng = np.random.default_rng(1)

    X = rng.normal(size=(args.examples + 2000, args.features))
    w = rng.normal(size=args.features)
    y = np.sign(X @ w + 0.3 * np.sqrt(args.features) * rng.normal(size=len(X)))
    X_train, y_train, X_test, y_test = X[:-2000], y[:-2000], X[-2000:], y[-2000:]

    votes = np.zeros(2000)
    for m in range(args.members):
        columns = random.sample(range(args.features), max(1, int(args.share * args.features)))
        rows = rng.integers(args.examples, size=args.examples)
        member = AveragedPerceptron(len(columns)).fit(X_train[np.ix_(rows, columns)], y_train[rows], args.epochs)
        alone = member.predict(X_test[:, columns])
        votes += alone
        print(f"member {m}: {member.updates} updates, accuracy {(alone == y_test).mean():.4f}, "
              f"ensemble {(np.sign(votes) == y_test).mean():.4f}")


main()
