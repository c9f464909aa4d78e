"""Segment bright blobs on an uneven background. Dice + BCE, hand-written Adam."""
import argparse
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from networks import UNet


@dataclass
class Adam:
    params: list
    lr: float
    t: int = 0
    m: list = field(default_factory=list)
    v: list = field(default_factory=list)

    def __post_init__(self):
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, m, v in zip(self.params, self.m, self.v):
            m.lerp_(p.grad, 0.1)
            v.lerp_(p.grad.square(), 0.001)
            p -= self.lr * (m / (1 - 0.9 ** self.t)) / ((v / (1 - 0.999 ** self.t)).sqrt() + 1e-8)
            p.grad = None


def scans(n: int, size: int, blobs: int = 4):
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
    centre = torch.rand(n, blobs, 2, 1, 1) * size
    radius = torch.rand(n, blobs, 1, 1) * size / 10 + size / 16
    inside = ((grid - centre).square().sum(2).sqrt() < radius).any(1)
    background = F.interpolate(torch.rand(n, 1, 4, 4), size=size, mode="bilinear")
    return inside[:, None] * 0.7 + background + 0.3 * torch.randn(n, 1, size, size), inside[:, None].float()


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


def run(cfg):
    torch.manual_seed(cfg.seed)
    image, mask = scans(cfg.scans, cfg.size)
    model = UNet(cfg.channels, cfg.depth)
    optimizer = Adam(list(model.parameters()), cfg.lr)
    for epoch in range(1, cfg.epochs + 1):
        losses = []
        for batch in torch.randperm(cfg.scans).split(cfg.batch):
            logits = model(image[batch])
            loss = dice(logits, mask[batch]) + F.binary_cross_entropy_with_logits(logits, mask[batch])
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        print(f"epoch {epoch:3d} loss {sum(losses) / len(losses):.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--scans", type=int, default=64)
    parser.add_argument("--size", type=int, default=64, help="pixels a side, a multiple of 2 ** depth")
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=3)
    run(parser.parse_args())
