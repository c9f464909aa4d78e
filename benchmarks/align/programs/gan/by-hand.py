#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/home/ravi/anime32.pt"
    latent: int = 72
    channels: int = 48
    epochs: int = 310
    batch_size: int = 80
    learning_rate: float = 7e-5


class Generator(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        c = config.channels
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(config.latent, 4 * c, 4), nn.BatchNorm2d(4 * c), nn.ReLU(),
            nn.ConvTranspose2d(4 * c, 2 * c, 4, stride=2, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.ConvTranspose2d(2 * c, 3, 4, stride=4), nn.Tanh(),
        )

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.layers(noise[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        c = config.channels
        self.layers = nn.Sequential(
            nn.Conv2d(3, 2 * c, 4, stride=4), nn.LeakyReLU(0.1),
            nn.Conv2d(2 * c, 4 * c, 4, stride=2, padding=1), nn.BatchNorm2d(4 * c), nn.LeakyReLU(0.1),
            nn.Conv2d(4 * c, 1, 4),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images).flatten()


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.generator, self.discriminator = Generator(config).cuda(), Discriminator(config).cuda()
        self.optimizer_g = torch.optim.RMSprop(self.generator.parameters(), lr=config.learning_rate)
        self.optimizer_d = torch.optim.RMSprop(self.discriminator.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.BCEWithLogitsLoss()

    def train_epoch(self) -> float:
        for (real,) in self.loader:
            real = real.cuda()
            fake = self.generator(torch.randn(len(real), self.config.latent, device="cuda"))
            score, false_score = self.discriminator(real), self.discriminator(fake.detach())
            loss_d = self.criterion(score, torch.ones_like(score)) + self.criterion(false_score, torch.zeros_like(score))
            self.optimizer_d.zero_grad()
            loss_d.backward()
            self.optimizer_d.step()
            loss_g = self.criterion(self.discriminator(fake), torch.ones_like(score))
            self.optimizer_g.zero_grad()
            loss_g.backward()
            self.optimizer_g.step()
        return loss_g.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
