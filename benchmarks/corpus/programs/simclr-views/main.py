"""Contrastive learning of image features without labels, then a linear classifier on them in closed form."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Augment:
    """Two random views: shift, flip, channel scaling, noise."""

    def __init__(self, noise):
        self.noise = noise

    def view(self, x):
        shift = torch.randint(-4, 5, (2,)).tolist()
        x = torch.roll(x, shift, dims=(2, 3))
        if torch.rand(()) < 0.5:
            x = x.flip(3)
        gain = torch.rand(len(x), x.shape[1], 1, 1) * 0.8 + 0.6
        return x * gain + self.noise * torch.randn_like(x)

    def __call__(self, x):
        return self.view(x), self.view(x)


class Encoder(nn.Module):
    def __init__(self, width, proj_dim):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(4 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, proj_dim))

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=1)


def nt_xent(a, b, temperature):
    z = torch.cat([a, b])
    logits = z @ z.T / temperature
    logits.fill_diagonal_(-1e9)
    n = len(a)
    positive = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(logits, positive)


def synth(n, size, kinds=6):
    protos = F.interpolate(torch.randn(kinds, 3, 5, 5), size=size, mode="bilinear")
    label = torch.randint(kinds, (n,))
    return protos[label] + 0.5 * torch.randn(n, 3, size, size), label


class LARS:
    def __init__(self, params, lr, momentum=0.9, trust=0.02):
        self.params, self.lr, self.momentum, self.trust = list(params), lr, momentum, trust
        self.state = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, s in zip(self.params, self.state):
            g, w = p.grad.norm(), p.norm()
            local = self.trust * w / g if p.ndim > 1 and g > 0 else 0.02
            s.mul_(self.momentum).add_(p.grad * local)
            p.sub_(s, alpha=self.lr)
            p.grad = None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-samples", type=int, default=800)
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--proj-dim", type=int, default=32)
    parser.add_argument("--temperature", type=float, default=0.5)
    args = parser.parse_args()
    torch.manual_seed(31)

    images, labels = synth(args.num_samples, args.resolution)
    encoder, augment = Encoder(args.width, args.proj_dim), Augment(0.3)
    optimizer = LARS(encoder.parameters(), lr=1.0)
    for epoch in range(args.pretrain_epochs):
        losses = []
        for index in torch.randperm(args.num_samples).split(args.batch_size):
            one, two = augment(images[index])
            loss = nt_xent(encoder(one), encoder(two), args.temperature)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"pretrain epoch {epoch} loss {sum(losses) / len(losses):.4f}")

    with torch.no_grad():
        features = encoder.eval().backbone(images)
        features = torch.cat([features, torch.ones(len(features), 1)], 1)
        solution = torch.linalg.lstsq(features, F.one_hot(labels).float()).solution
        print(f"linear probe accuracy {((features @ solution).argmax(1) == labels).float().mean():.3f}")


if __name__ == "__main__":
    main()
