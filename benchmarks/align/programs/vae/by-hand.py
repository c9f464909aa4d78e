#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/scratch/nils/omniglot.pt"
    pixels: int = 11025
    hidden: int = 720
    latent: int = 48
    epochs: int = 260
    batch_size: int = 350
    learning_rate: float = 0.0007


class AutoEncoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(config.pixels, config.hidden), nn.ReLU())
        self.mean = nn.Linear(config.hidden, config.latent)
        self.log_variance = nn.Linear(config.hidden, config.latent)
        self.decoder = nn.Sequential(
            nn.Linear(config.latent, config.hidden), nn.ReLU(), nn.Linear(config.hidden, config.pixels)
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(images)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = AutoEncoder(config).cuda()
        self.optimizer = torch.optim.Adamax(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.BCEWithLogitsLoss(reduction="sum")

    def train_epoch(self) -> float:
        for (images,) in self.loader:
            images = images.flatten(1).cuda()
            restored, mean, log_variance = self.model(images)
            divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
            loss = self.criterion(restored, images) + divergence
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
