#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/home/yuki/pixels.pt"
    channels: int = 56
    steps: int = 400
    epochs: int = 720
    batch_size: int = 112
    learning_rate: float = 0.0006


class NoisePredictor(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        c = config.channels
        self.time = nn.Embedding(config.steps, c)
        self.down = nn.Conv2d(3, c, 3, padding=1)
        self.middle = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1), nn.SiLU())
        self.up = nn.Conv2d(2 * c, 3, 3, padding=1)

    def forward(self, noisy: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        hidden = self.down(noisy) + self.time(step)[:, :, None, None]
        return self.up(torch.cat([hidden, self.middle(hidden)], dim=1))


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = NoisePredictor(config).cuda()
        self.optimizer = torch.optim.NAdam(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(torch.load(config.data)), config.batch_size, shuffle=True)
        self.signal = torch.cumprod(1 - torch.linspace(1e-4, 0.035, config.steps), dim=0).cuda()
        self.criterion = nn.MSELoss()

    def train_epoch(self) -> float:
        for (images,) in self.loader:
            images, noise = images.cuda(), torch.randn_like(images, device="cuda")
            step = torch.randint(self.config.steps, (len(images),), device="cuda")
            signal = self.signal[step][:, None, None, None]
            noisy = signal.sqrt() * images + (1 - signal).sqrt() * noise
            loss = self.criterion(self.model(noisy, step), noise)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
