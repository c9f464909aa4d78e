import torch
from torch import nn
from torch.nn import functional as F


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(n_in, n_out), nn.LayerNorm(n_out), nn.SiLU()]
    return nn.Sequential(*layers[:-2])


class Tower(nn.Module):
    """An id and some features of a user or an item to a vector of length one."""

    def __init__(self, count: int, features: int, hidden: int, dim: int):
        super().__init__()
        self.identity = nn.Embedding(count, dim)
        self.net = mlp(dim + features, hidden, hidden, dim)

    def forward(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.net(torch.cat([self.identity(ids), features], dim=1)), dim=1)


def in_batch_softmax(users: torch.Tensor, items: torch.Tensor, temperature: float) -> torch.Tensor:
    """Every other item of the batch is a negative."""
    logits = users @ items.T / temperature
    return F.cross_entropy(logits, torch.arange(len(logits)))
