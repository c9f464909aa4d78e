"""Fit an image with a network of sines that maps coordinates to brightness (SIREN)."""
from argparse import ArgumentParser

import torch


def target_image(side: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    return (torch.sin(8 * x * y) + torch.exp(-6 * (x - 0.3) ** 2 - 4 * y ** 2) + 0.5 * torch.sign(x + y)).flatten()


def init(fan_in: int, fan_out: int, omega: float, first: bool = False) -> list[torch.Tensor]:
    bound = 1 / fan_in if first else (6 / fan_in) ** 0.5 / omega
    return [torch.empty(fan_in, fan_out).uniform_(-bound, bound), torch.zeros(fan_out)]


def siren(weights: list[torch.Tensor], xy: torch.Tensor, omega: float) -> torch.Tensor:
    h = xy
    for w, b in zip(weights[:-2:2], weights[1:-2:2]):
        h = torch.sin(omega * (h @ w + b))
    return (h @ weights[-2] + weights[-1]).squeeze(1)


def fit(steps: int, side: int, hidden: int, depth: int, points: int, omega: float) -> None:
    torch.manual_seed(0)
    axis = torch.linspace(-1, 1, side)
    xy = torch.cartesian_prod(axis, axis)
    image = target_image(side)
    weights = init(2, hidden, omega, first=True)
    for _ in range(depth):
        weights += init(hidden, hidden, omega)
    weights += init(hidden, 1, omega)
    weights = [w.requires_grad_() for w in weights]
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    for step in range(1, steps + 1):
        pick = torch.randint(len(xy), (points,))
        loss = (siren(weights, xy[pick], omega) - image[pick]).square().mean()
        grads = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for w, g, m, v in zip(weights, grads, first, second):
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                w -= 5e-4 * (m / (1 - 0.9 ** step)) / ((v / (1 - 0.999 ** step)).sqrt() + 1e-8)
        if step % 25 == 0:
            print(f"step {step} loss {loss:.5f}")
    with torch.no_grad():
        mse = (siren(weights, xy, omega) - image).square().mean()
    print(f"PSNR {10 * torch.log10(4 / mse):.2f} dB")


if __name__ == "__main__":
    p = ArgumentParser()
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--side", type=int, default=64)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--points", type=int, default=1024, help="pixels per step")
    p.add_argument("--omega", type=float, default=30.0)
    fit(**vars(p.parse_args()))
