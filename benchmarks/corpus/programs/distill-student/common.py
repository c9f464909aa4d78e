import argparse

import torch
from torch import nn


def options(*paths):
    p = argparse.ArgumentParser()
    for path in paths:
        p.add_argument(path, required=True)
    p.add_argument("--teacher-epochs", type=int, default=2)
    p.add_argument("--student-epochs", type=int, default=2)
    p.add_argument("--teacher-width", type=int, default=256)
    p.add_argument("--student-width", type=int, default=32)
    p.add_argument("--n-train", type=int, default=6000)
    p.add_argument("--batch-size", type=int, default=100)
    p.add_argument("--temperature", type=float, default=3.0)
    return p.parse_args()


def spirals(n, seed, arms=6):
    g = torch.Generator().manual_seed(seed)
    arm = torch.randint(arms, (n,), generator=g)
    r = torch.rand(n, generator=g)
    angle = 4 * r + 2 * torch.pi * arm / arms + 0.15 * torch.randn(n, generator=g)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1), arm


def network(width, depth, arms=6):
    layers, n = [], 2
    for _ in range(depth):
        layers += [nn.Linear(n, width), nn.Tanh()]
        n = width
    return nn.Sequential(*layers, nn.Linear(n, arms))


def adam_step(model, state, lr=2e-3):
    """Adam with the gradients that are in the model."""
    state["t"] = t = state.get("t", 0) + 1
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            m, v = state.setdefault(i, (torch.zeros_like(p), torch.zeros_like(p)))
            m.lerp_(p.grad, 0.1)
            v.lerp_(p.grad**2, 0.001)
            p -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
            p.grad = None


def accuracy(model):
    x, y = spirals(2000, seed=2)
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()
