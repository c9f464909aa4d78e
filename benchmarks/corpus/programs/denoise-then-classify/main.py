"""Stage 1: a denoising autoencoder learns from many rows without labels. Stage 2: a classifier is trained on its codes
from few rows with labels, the encoder is tuned along."""
import argparse

import torch
import torch.nn as nn


def get_data(n, dim, classes=10):
    """Points near a curved surface in many dimensions."""
    y = torch.randint(classes, (n,))
    latent = torch.randn(classes, 8)[y] + 0.6 * torch.randn(n, 8)
    return torch.tanh(latent @ torch.randn(8, dim)) + 0.1 * torch.randn(n, dim), y


class Encoder(nn.Module):
    def __init__(self, dim, width, code, depth):
        super().__init__()
        sizes = [dim] + [width] * depth
        self.body = nn.Sequential(*(m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())))
        self.code = nn.Linear(width, code)

    def forward(self, x):
        return self.code(self.body(x))


def train(stage, params, loss_of, n, epochs, batch, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        total = 0.
        for idx in torch.randperm(n).split(batch):
            loss = loss_of(idx)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"[{stage}] epoch {epoch + 1}: {total / n:.4f}")


def main(args):
    torch.manual_seed(args.seed)
    x, y = get_data(args.unlabelled + args.labelled + 1000, args.dim)
    few, few_y = x[:args.labelled], y[:args.labelled]
    test, test_y = x[-1000:], y[-1000:]
    many = x[args.labelled:-1000]

    encoder = Encoder(args.dim, args.width, 16, args.depth)
    decoder = nn.Sequential(nn.ReLU(), nn.Linear(16, args.width), nn.ReLU(), nn.Linear(args.width, args.dim))

    def reconstruct(idx):
        clean = many[idx]
        return nn.functional.mse_loss(decoder(encoder(clean + args.noise * torch.randn_like(clean))), clean)

    train("denoise", [*encoder.parameters(), *decoder.parameters()], reconstruct, len(many), args.pretrain_epochs,
          args.batch_size, 1e-3)

    head = nn.Linear(16, 10)
    train("classify", [*encoder.parameters(), *head.parameters()],
          lambda idx: nn.functional.cross_entropy(head(encoder(few[idx])), few_y[idx]), len(few), args.finetune_epochs,
          args.batch_size // 4, 5e-4)
    with torch.no_grad():
        print("test accuracy", (head(encoder(test)).argmax(1) == test_y).float().mean().item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrain-epochs", type=int, default=2)
    parser.add_argument("--finetune-epochs", type=int, default=5)
    parser.add_argument("--unlabelled", type=int, default=10000)
    parser.add_argument("--labelled", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
