"""Classify drawn shapes (disc, square, cross, ring) with a small convolutional network."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=4, help="passes over the training set")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--samples", type=int, default=2000, help="number of training images")
    p.add_argument("--width", type=int, default=16, help="channels of the first layer")
    p.add_argument("--image-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def draw(n, size, generator):
    """n images with one shape each, and the shapes' numbers."""
    axis = torch.arange(size, dtype=torch.float32)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    cx, cy = (torch.rand(2, n, 1, 1, generator=generator) * 0.4 + 0.3) * size
    radius = (torch.rand(n, 1, 1, generator=generator) * 0.1 + 0.12) * size
    dx, dy = (xx - cx).abs(), (yy - cy).abs()
    dist = (dx ** 2 + dy ** 2).sqrt()
    kinds = torch.stack([
        (dist < radius).float(),
        (torch.maximum(dx, dy) < radius).float(),
        ((torch.minimum(dx, dy) < 2) & (torch.maximum(dx, dy) < radius)).float(),
        ((dist < radius) & (dist > radius - 2)).float(),
    ], dim=1)
    label = torch.randint(4, (n,), generator=generator)
    images = kinds[torch.arange(n), label].unsqueeze(1)
    return images + 0.2 * torch.randn(images.shape, generator=generator), label


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.fc = nn.Linear(2 * width, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.conv3(x)).mean(dim=(2, 3))
        return self.fc(x)


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    x_train, y_train = draw(args.samples, args.image_size, generator)
    x_test, y_test = draw(400, args.image_size, generator)

    model = Net(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        total = 0.0
        order = torch.randperm(args.samples)
        for index in order.split(args.batch_size):
            loss = F.cross_entropy(model(x_train[index]), y_train[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(index)
        with torch.no_grad():
            accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
        print(f"epoch {epoch + 1}/{args.epochs}  loss {total / args.samples:.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
