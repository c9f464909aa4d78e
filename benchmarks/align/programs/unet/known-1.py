#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=08:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/data/carvana.pt"
    channels: int = 64
    classes: int = 2
    epochs: int = 25
    batch_size: int = 16
    learning_rate: float = 3e-4


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class UNet(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        c = config.channels
        self.encoder, self.bottom, self.decoder = Block(3, c), Block(c, 2 * c), Block(2 * c, c)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.head = nn.Conv2d(c, config.classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        skip = self.encoder(images)
        deep = self.up(self.bottom(self.pool(skip)))
        return self.head(self.decoder(torch.cat([skip, deep], dim=1)))


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = UNet(config).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(*torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self) -> float:
        for images, masks in self.loader:
            loss = self.criterion(self.model(images.cuda()), masks.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
