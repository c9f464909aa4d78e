#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=04:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/data/netflix.pt"
    users: int = 480189
    items: int = 17770
    width: int = 64
    epochs: int = 8
    batch_size: int = 8192
    learning_rate: float = 1e-3


class NeuralRecommender(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.users = nn.Embedding(config.users, config.width)
        self.items = nn.Embedding(config.items, config.width)
        self.tower = nn.Sequential(nn.Linear(2 * config.width, config.width), nn.ReLU(), nn.Linear(config.width, 1))

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        return self.tower(torch.cat([self.users(user), self.items(item)], dim=1)).flatten()


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = NeuralRecommender(config).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(*torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.MSELoss()

    def train_epoch(self) -> float:
        for user, item, rating in self.loader:
            loss = self.criterion(self.model(user.cuda(), item.cuda()), rating.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
