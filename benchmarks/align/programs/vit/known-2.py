#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=04:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/data/cifar100.pt"
    image_size: int = 32
    patch_size: int = 4
    width: int = 192
    depth: int = 6
    heads: int = 3
    classes: int = 100
    epochs: int = 150
    batch_size: int = 256
    learning_rate: float = 5e-4


class VisionTransformer(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2
        self.embed = nn.Conv2d(3, config.width, config.patch_size, stride=config.patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.position = nn.Parameter(torch.randn(1, patches + 1, config.width) * 0.02)
        layer = nn.TransformerEncoderLayer(config.width, config.heads, 4 * config.width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, config.depth)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), tokens], dim=1)
        return self.head(self.encoder(tokens + self.position)[:, 0])


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = VisionTransformer(config).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(*torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self) -> float:
        for images, labels in self.loader:
            loss = self.criterion(self.model(images.cuda()), labels.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
