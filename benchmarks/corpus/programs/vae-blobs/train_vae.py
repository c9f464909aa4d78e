"""Variational autoencoder with fully connected layers. A JSON file holds the settings; options override it."""
import argparse
import json
from types import SimpleNamespace

import torch
from torch import Tensor, nn


class VAE(nn.Module):
    def __init__(self, pixels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, latent)
        self.log_var = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, pixels)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(z), mean, log_var


class AdamState:
    def __init__(self, model: nn.Module, lr: float) -> None:
        self.model, self.lr, self.count = model, lr, 0
        self.first = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        self.second = {n: torch.zeros_like(p) for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        self.count += 1
        scale = self.lr * (1 - 0.999 ** self.count) ** 0.5 / (1 - 0.9 ** self.count)
        for name, p in self.model.named_parameters():
            m, v = self.first[name], self.second[name]
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p.addcdiv_(m, v.sqrt().add_(1e-8), value=-scale)


def bumps(n: int, size: int) -> Tensor:
    """Images of one bump with random place, width and height."""
    t = torch.linspace(-1, 1, size)
    cx, cy = torch.rand(2, n, 1) * 1.4 - 0.7
    w = torch.rand(n, 1) * 0.3 + 0.1
    gx, gy = torch.exp(-((t - cx) / w) ** 2), torch.exp(-((t - cy) / w) ** 2)
    return (gx[:, :, None] * gy[:, None, :] * (torch.rand(n, 1, 1) * 0.5 + 0.5)).flatten(1)


def load_config() -> SimpleNamespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="base.json")
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--num-samples", type=int)
    parser.add_argument("--hidden-size", type=int)
    args = vars(parser.parse_args())
    with open(args.pop("config")) as file:
        config = json.load(file)
    config.update({k: v for k, v in args.items() if v is not None})
    return SimpleNamespace(**config)


def train(cfg: SimpleNamespace) -> None:
    torch.manual_seed(2024)
    data = bumps(cfg.num_samples, cfg.image_size)
    model = VAE(cfg.image_size ** 2, cfg.hidden_size, cfg.latent)
    adam = AdamState(model, cfg.lr)
    for epoch in range(cfg.max_epochs):
        sums = torch.zeros(2)
        for batch in data[torch.randperm(len(data))].split(cfg.batch_size):
            logits, mean, log_var = model(batch)
            recon = nn.functional.binary_cross_entropy_with_logits(logits, batch, reduction="sum")
            kl = -0.5 * (1 + log_var - mean ** 2 - log_var.exp()).sum()
            model.zero_grad()
            ((recon + cfg.beta * kl) / len(batch)).backward()
            adam.update()
            sums += torch.stack([recon, kl]).detach()
        recon, kl = (sums / len(data)).tolist()
        print(f"epoch {epoch:2d}: reconstruction {recon:.2f} KL {kl:.2f} loss {recon + cfg.beta * kl:.2f}")


if __name__ == "__main__":
    train(load_config())
