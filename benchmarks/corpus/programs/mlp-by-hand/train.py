"""A multi-layer perceptron for regression, forward and backward pass written out in numpy."""

import argparse

import numpy as np


def make_data(rng, n_samples, n_inputs):
    """Noisy values of a random smooth function."""
    x = rng.standard_normal((n_samples, n_inputs)).astype(np.float32)
    directions = rng.standard_normal((n_inputs, 8)).astype(np.float32) / np.sqrt(n_inputs)
    y = np.sin(2 * x @ directions).sum(axis=1, keepdims=True) + 0.05 * rng.standard_normal((n_samples, 1))
    return x, y.astype(np.float32)


class Dense:
    def __init__(self, rng, n_in, n_out):
        self.w = (rng.standard_normal((n_in, n_out)) * np.sqrt(2 / n_in)).astype(np.float32)
        self.b = np.zeros(n_out, np.float32)
        self.vw = np.zeros_like(self.w)
        self.vb = np.zeros_like(self.b)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, grad, lr, momentum=0.9):
        down = grad @ self.w.T
        self.vw = momentum * self.vw - lr * (self.x.T @ grad)
        self.vb = momentum * self.vb - lr * grad.sum(axis=0)
        self.w += self.vw
        self.b += self.vb
        return down


class Relu:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, grad, lr):
        return grad * self.on


def build(rng, n_inputs, hidden, layers):
    net, width = [], n_inputs
    for _ in range(layers):
        net += [Dense(rng, width, hidden), Relu()]
        width = hidden
    return [*net, Dense(rng, width, 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=256, help="units in each hidden layer")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    rng = np.random.default_rng(7)
    x, y = make_data(rng, args.samples, args.inputs)
    net = build(rng, args.inputs, args.hidden, args.layers)
    for epoch in range(args.epochs):
        order = rng.permutation(len(x))
        total = 0.0
        for start in range(0, len(x), args.batch_size):
            rows = order[start : start + args.batch_size]
            out = x[rows]
            for layer in net:
                out = layer.forward(out)
            error = out - y[rows]
            total += float((error**2).sum())
            grad = error / len(rows)
            for layer in reversed(net):
                grad = layer.backward(grad, args.lr)
        print(f"epoch {epoch + 1}/{args.epochs} mse {total / len(x):.4f}")


if __name__ == "__main__":
    main()
