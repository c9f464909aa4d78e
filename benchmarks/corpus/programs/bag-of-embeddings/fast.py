"""fastText-like classifier: the mean of hashed word and bigram vectors, one linear layer, plain SGD."""
from argparse import ArgumentParser
from itertools import pairwise
import random

import torch
from torch import nn


def documents(n, length, n_classes, rng):
    keyword = {c: [f"k{c}_{i}" for i in range(30)] for c in range(n_classes)}
    for _ in range(n):
        label = rng.randrange(n_classes)
        yield [
            rng.choice(keyword[label]) if rng.random() < 0.1 else f"w{int(rng.paretovariate(0.8))}" for _ in range(length)
        ], label


def bucket(token, buckets, memo={}):
    """FNV-1a, so that it is the same in every process."""
    if token not in memo:
        h = 2166136261
        for byte in token.encode():
            h = (h ^ byte) * 16777619 & 0xFFFFFFFF
        memo[token] = h
    return memo[token] % buckets


def encode(words, buckets):
    return torch.tensor([bucket(w, buckets) for w in words] + [bucket(f"{a} {b}", buckets) for a, b in pairwise(words)])


def accuracy(model, head, rows):
    with torch.no_grad():
        hits = sum(int(head(model(x[None])).argmax()) == y for x, y in rows)
    return hits / len(rows)


def main():
    p = ArgumentParser()
    p.add_argument("--epoch", type=int, default=2)
    p.add_argument("--docs", type=int, default=3000)
    p.add_argument("--length", type=int, default=50)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--buckets", type=int, default=20_000)
    p.add_argument("--bs", type=int, default=32)
    p.add_argument("--classes", type=int, default=8)
    p.add_argument("--lr", type=float, default=4.0)
    a = p.parse_args()
    rng = random.Random(10)
    torch.manual_seed(10)
    rows = [(encode(words, a.buckets), y) for words, y in documents(a.docs + 300, a.length, a.classes, rng)]
    test, train = rows[:300], rows[300:]

    bag, head = nn.EmbeddingBag(a.buckets, a.dim, mode="mean", sparse=True), nn.Linear(a.dim, a.classes)
    weights = [*bag.parameters(), *head.parameters()]
    for e in range(a.epoch):
        rng.shuffle(train)
        for i in range(0, len(train), a.bs):
            xs, ys = zip(*train[i : i + a.bs])
            offsets = torch.tensor([0, *map(len, xs[:-1])]).cumsum(0)
            loss = nn.functional.cross_entropy(head(bag(torch.cat(xs), offsets)), torch.tensor(ys))
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients):
                    weight.add_(gradient, alpha=-a.lr)
        print(f"epoch {e}: last loss {loss.item():.3f} accuracy {accuracy(bag, head, test):.3f}")


main()
