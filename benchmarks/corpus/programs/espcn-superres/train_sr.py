"""Single-image super-resolution with a sub-pixel convolution (ESPCN). Patches are cut from synthetic textures."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, count, patch, scale, seed=0):
        g = torch.Generator().manual_seed(seed)
        size = patch * scale
        t = torch.linspace(0, 2 * math.pi, size)
        f = torch.rand(count, 4, 2, 1, 1, generator=g) * 8
        phase = torch.rand(count, 4, 1, 1, generator=g) * 2 * math.pi
        waves = torch.sin(f[:, :, 0] * t.view(1, 1, -1, 1) + f[:, :, 1] * t.view(1, 1, 1, -1) + phase)
        self.high = waves.sign().add(waves).mean(1, keepdim=True)
        self.low = nn.functional.avg_pool2d(self.high, scale)

    def __len__(self):
        return len(self.high)

    def __getitem__(self, i):
        return self.low[i], self.high[i]


class ESPCN(nn.Module):
    def __init__(self, scale, feats, n_convs):
        super().__init__()
        body = [nn.Conv2d(1, feats, 5, padding=2), nn.Tanh()]
        for _ in range(n_convs):
            body += [nn.Conv2d(feats, feats, 3, padding=1), nn.Tanh()]
        self.body = nn.Sequential(*body)
        self.tail = nn.Sequential(nn.Conv2d(feats, scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        return self.tail(self.body(x))


class Trainer:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.loader = DataLoader(Patches(args.num_patches, args.patch_size, args.scale), args.batch_size, shuffle=True)
        self.val = Patches(32, args.patch_size, args.scale, seed=1)
        self.model = ESPCN(args.scale, args.feats, args.n_convs)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=5, gamma=0.5)
        self.criterion = nn.L1Loss()

    def psnr(self):
        self.model.eval()
        with torch.no_grad():
            mse = (self.model(self.val.low) - self.val.high).square().mean()
        return (10 * torch.log10(4 / mse)).item()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for low, high in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(low), high)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.scheduler.step()
        return total / len(self.loader)

    def fit(self):
        for epoch in range(self.args.num_epochs):
            loss = self.train_epoch()
            print(f"Epoch [{epoch + 1}/{self.args.num_epochs}] L1: {loss:.5f} PSNR: {self.psnr():.2f} dB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-patches", type=int, default=200)
    parser.add_argument("--patch-size", type=int, default=24, help="of the small image")
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--feats", type=int, default=24)
    parser.add_argument("--n-convs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=123)
    Trainer(parser.parse_args()).fit()
