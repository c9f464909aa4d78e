#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/scratch/lea/tiny_shakespeare.pt"
    vocabulary: int = 65
    width: int = 224
    layers: int = 1
    length: int = 75
    epochs: int = 55
    batch_size: int = 48
    learning_rate: float = 0.004


class CharModel(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.rnn = nn.GRU(config.width, config.width, config.layers, batch_first=True)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(self.embed(characters))
        return self.head(states)


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = CharModel(config).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        text = torch.load(config.data).unfold(0, config.length + 1, config.length)
        self.loader = DataLoader(TensorDataset(text), config.batch_size, shuffle=True)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self) -> float:
        for (text,) in self.loader:
            text = text.cuda()
            loss = self.criterion(self.model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
