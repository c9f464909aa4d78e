"""Train a convolutional and an attention network one after the other on the same images and compare them."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def dataset(n, size, classes=5):
    """Sinusoidal texture inside a random window; the class is its frequency."""
    y = torch.randint(classes, (n,))
    t = torch.arange(size) / size * 6.283
    wave = torch.sin((y + 2).view(-1, 1) * t + torch.rand(n, 1) * 6.283)
    images = 0.8 * torch.randn(n, 1, size, size)
    top = torch.randint(0, size // 2, (n,))
    inside = (torch.arange(size) >= top.view(-1, 1)) & (torch.arange(size) < top.view(-1, 1) + size // 2)
    return images + wave.view(n, 1, 1, size) * inside.view(n, 1, size, 1), y


class ConvNet(nn.Module):
    def __init__(self, width, layers, classes=5):
        super().__init__()
        blocks = [nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU()]
        for _ in range(layers - 1):
            blocks += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.net = nn.Sequential(*blocks)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.net(x).mean((2, 3)))


class RowTransformer(nn.Module):
    """Every image row is a token."""

    def __init__(self, size, dim, layers, classes=5):
        super().__init__()
        self.embed = nn.Linear(size, dim)
        self.position = nn.Parameter(0.02 * torch.randn(size, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x.squeeze(1)) + self.position).mean(1))


def fit(name, model, x, y, epochs, batch_size, lr):
    start = time.time()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        loss_sum = correct = 0
        for idx in torch.randperm(len(x)).split(batch_size):
            out = model(x[idx])
            loss = F.cross_entropy(out, y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(idx)
            correct += (out.argmax(1) == y[idx]).sum().item()
        print(f"{name} epoch {epoch}: loss {loss_sum / len(x):.4f} acc {correct / len(x):.3f}")
    return correct / len(x), time.time() - start


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cnn-epochs", type=int, default=4)
    ap.add_argument("--attn-epochs", type=int, default=4)
    ap.add_argument("--n", type=int, default=800)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--batch-size", type=int, default=40)
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(3)
    x, y = dataset(args.n, args.size)
    results = {
        "cnn": fit("cnn", ConvNet(args.width, args.layers), x, y, args.cnn_epochs, args.batch_size, args.lr),
        "attn": fit("attn", RowTransformer(args.size, 2 * args.width, args.layers), x, y, args.attn_epochs,
                    args.batch_size, args.lr / 3),
    }
    for name, (accuracy, seconds) in results.items():
        print(f"{name:5s} accuracy {accuracy:.3f} in {seconds:.1f} s")


if __name__ == "__main__":
    main()
