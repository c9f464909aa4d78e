"""Physics-informed network for the heat equation u_t = a u_xx on [0, 1] with u(0) = u(1) = 0, u(x, 0) = sin(pi x)."""
import argparse
import math

import torch
from torch import nn

DIFFUSIVITY = 0.1


def network(units, layers):
    parts = [nn.Linear(2, units), nn.Tanh()]
    for _ in range(layers - 1):
        parts += [nn.Linear(units, units), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(units, 1))


def gradient(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(net, n):
    xt = torch.rand(n, 2, requires_grad=True)
    first = gradient(net(xt), xt)
    second = gradient(first[:, 0], xt)
    return first[:, 1] - DIFFUSIVITY * second[:, 0]


def boundary(net, n):
    t = torch.rand(n, 1)
    left, right = net(torch.cat([torch.zeros(n, 1), t], 1)), net(torch.cat([torch.ones(n, 1), t], 1))
    x = torch.rand(n, 1)
    start = net(torch.cat([x, torch.zeros(n, 1)], 1)) - torch.sin(math.pi * x)
    return left.square().mean() + right.square().mean() + start.square().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--collocation-points", type=int, default=512)
    parser.add_argument("--boundary-points", type=int, default=64)
    parser.add_argument("--hidden-units", type=int, default=48)
    parser.add_argument("--num-layers", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    net = network(args.hidden_units, args.num_layers)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for i in range(args.iterations):
        physics = residual(net, args.collocation_points).square().mean()
        edges = boundary(net, args.boundary_points)
        loss = physics + 10 * edges
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 25 == 0:
            print(f"iteration {i} physics {physics.item():.5f} boundary {edges.item():.5f}")
    with torch.no_grad():
        x, t = torch.rand(1000, 1), torch.rand(1000, 1)
        exact = torch.exp(-DIFFUSIVITY * math.pi ** 2 * t) * torch.sin(math.pi * x)
        print(f"relative error {((net(torch.cat([x, t], 1)) - exact).norm() / exact.norm()).item():.4f}")


if __name__ == "__main__":
    main()
