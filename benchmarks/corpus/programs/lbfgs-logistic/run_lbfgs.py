import argparse
from collections import deque

import numpy as np


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument('--path', type=float, nargs='+', default=[1.0], help='penalties, from strong to weak')
    ap.add_argument('--max-iter', type=int, default=20)
    ap.add_argument('--memory', type=int, default=10)
    ap.add_argument('--n-samples', type=int, default=20000)
    ap.add_argument('--n-features', type=int, default=200)
    return ap.parse_args()


def objective(w, X, y, lam):
    """Mean logistic loss with a ridge penalty, and its gradient. y is -1 or 1."""
    margin = y * (X @ w)
    loss = np.logaddexp(0, -margin).mean() + 0.5 * lam * w @ w / len(w)
    p = -y / (1 + np.exp(np.clip(margin, -500, 500)))
    return loss, X.T @ p / len(y) + lam * w / len(w)


def two_loop(grad, pairs):
    """Nocedal and Wright (2006), algorithm 7.4."""
    q = grad.copy()
    alphas = []
    for s, t in reversed(pairs):
        alpha = (s @ q) / (t @ s)
        q -= alpha * t
        alphas.append(alpha)
    if pairs:
        s, t = pairs[-1]
        q *= (s @ t) / (t @ t)
    for (s, t), alpha in zip(pairs, reversed(alphas)):
        q += (alpha - (t @ q) / (t @ s)) * s
    return q


def minimise(fun, w, max_iter, memory):
    pairs = deque(maxlen=memory)
    f, g = fun(w)
    for it in range(max_iter):
        direction = -two_loop(g, pairs)
        slope = g @ direction
        step = 1.0
        # Armijo, at most four halvings
        for _ in range(4):
            f_new, g_new = fun(w + step * direction)
            if f_new <= f + 1e-4 * step * slope:
                break
            step /= 2
        s = step * direction
        if s @ (g_new - g) > 1e-12:
            pairs.append((s, g_new - g))
        w, f, g = w + s, f_new, g_new
    return w, f


args = get_args()
rng = np.random.RandomState(0)
scales = 1.0 / np.arange(1, args.n_features + 1)
X = rng.randn(args.n_samples, args.n_features) * scales
truth = rng.randn(args.n_features)
y = np.where(X @ truth + 0.5 * rng.randn(args.n_samples) > 0, 1.0, -1.0)
cut = int(0.8 * len(X))

w = np.zeros(args.n_features)
for lam in args.path:
    w, f = minimise(lambda v: objective(v, X[:cut], y[:cut], lam), w, args.max_iter, args.memory)
    print('lambda %g objective %.5f accuracy %.4f' % (lam, f, ((X[cut:] @ w > 0) == (y[cut:] > 0)).mean()))
