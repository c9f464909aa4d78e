"""Stage 1: masked reconstruction of spectra without labels. Stage 2: a classifier on top, with few labels."""
import argparse

import torch
from torch import nn


class Adam:
    def __init__(self, params, lr):
        self.p, self.lr, self.t = [q for q in params], lr, 0
        self.m = [torch.zeros_like(q) for q in self.p]
        self.v = [torch.zeros_like(q) for q in self.p]

    def step(self):
        self.t += 1
        with torch.no_grad():
            for q, m, v in zip(self.p, self.m, self.v):
                m += 0.1 * (q.grad - m)
                v += 0.001 * (q.grad ** 2 - v)
                q -= self.lr * m / (1 - 0.9 ** self.t) / ((v / (1 - 0.999 ** self.t)) ** 0.5 + 1e-8)
                q.grad = None


def spectra(n, channels, classes=6):
    """Sums of peaks; their places depend on the class."""
    places = torch.rand(classes, 5)
    y = torch.randint(classes, (n,))
    centre = places[y] + 0.01 * torch.randn(n, 5)
    height = torch.rand(n, 5) + 0.3
    axis = torch.linspace(0, 1, channels)
    x = (height[:, :, None] * torch.exp(-((axis - centre[:, :, None]) / 0.02) ** 2)).sum(1)
    return x + 0.05 * torch.randn(n, channels), y


def encoder(filters):
    return nn.Sequential(
        nn.Conv1d(1, filters, 9, 2, 4), nn.ReLU(),
        nn.Conv1d(filters, filters * 2, 7, 2, 3), nn.ReLU(),
        nn.Conv1d(filters * 2, filters * 2, 5, 2, 2), nn.ReLU(),
    )


def decoder(filters):
    return nn.Sequential(
        nn.ConvTranspose1d(filters * 2, filters * 2, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose1d(filters * 2, filters, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose1d(filters, 1, 4, 2, 1),
    )


def pretrain(enc, dec, data, epochs, batch):
    opt = Adam([*enc.parameters(), *dec.parameters()], 1e-3)
    for epoch in range(epochs):
        total = 0.0
        for i in torch.randperm(len(data)).split(batch):
            x = data[i].unsqueeze(1)
            keep = (torch.rand(len(i), 1, x.shape[-1] // 8) > 0.4).float().repeat_interleave(8, -1)
            loss = ((dec(enc(x * keep)) - x) ** 2).mean()
            loss.backward()
            opt.step()
            total += loss.item() * len(i)
        print(f"[pretrain] epoch {epoch} mse {total / len(data):.5f}")


def finetune(enc, x, y, epochs, batch, filters):
    head = nn.Linear(filters * 2, 6)
    opt = Adam([*enc.parameters(), *head.parameters()], 1e-3)
    for epoch in range(epochs):
        total = correct = 0.0
        for i in torch.randperm(len(x)).split(batch):
            logits = head(enc(x[i].unsqueeze(1)).amax(-1))
            loss = nn.functional.cross_entropy(logits, y[i])
            loss.backward()
            opt.step()
            total += loss.item() * len(i)
            correct += (logits.argmax(1) == y[i]).sum().item()
        print(f"[finetune] epoch {epoch} loss {total / len(x):.4f} accuracy {correct / len(x):.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--pretrain-epochs", type=int, default=3)
    ap.add_argument("--finetune-epochs", type=int, default=5)
    ap.add_argument("--unlabelled", type=int, default=1000)
    ap.add_argument("--labelled", type=int, default=200)
    ap.add_argument("--channels", type=int, default=256, help="length of a spectrum, a multiple of 8")
    ap.add_argument("--filters", type=int, default=16)
    ap.add_argument("--batch-size", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(64)
    x, y = spectra(args.unlabelled + args.labelled, args.channels)
    enc = encoder(args.filters)
    pretrain(enc, decoder(args.filters), x[args.labelled:], args.pretrain_epochs, args.batch_size)
    finetune(enc, x[: args.labelled], y[: args.labelled], args.finetune_epochs, args.batch_size, args.filters)
