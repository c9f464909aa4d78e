#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    data: str = "/scratch/tao/proteins.pt"
    vocabulary: int = 33
    width: int = 320
    depth: int = 5
    heads: int = 10
    length: int = 448
    masked: float = 0.2
    epochs: int = 65
    batch_size: int = 44
    learning_rate: float = 0.0004


class MaskedLanguageModel(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Parameter(torch.randn(1, config.length, config.width) * 0.02)
        layer = nn.TransformerEncoderLayer(config.width, config.heads, 4 * config.width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, config.depth)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.tokens(tokens) + self.position))


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = MaskedLanguageModel(config).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.learning_rate)
        self.loader = DataLoader(TensorDataset(torch.load(config.data)), config.batch_size, shuffle=True)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self) -> float:
        for (tokens,) in self.loader:
            tokens = tokens.cuda()
            hidden = torch.rand(tokens.shape, device="cuda") < self.config.masked
            scores = self.model(tokens.masked_fill(hidden, 32))
            loss = self.criterion(scores[hidden], tokens[hidden])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.config.epochs):
            print(f"epoch {epoch}: loss {self.train_epoch():.4f}")

if __name__ == "__main__":
    Trainer(Config()).fit()
