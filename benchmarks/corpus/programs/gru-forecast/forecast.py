import argparse
import dataclasses

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class Config:
    num_epochs: int = 3
    batch_size: int = 64
    hidden_size: int = 48
    num_layers: int = 1
    series: int = 20
    hours: int = 400
    window: int = 48
    horizon: int = 12
    learning_rate: float = 0.005


def parse() -> Config:
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(Config):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=field.type, default=field.default)
    return Config(**vars(parser.parse_args()))


def load_curves(cfg: Config) -> Tensor:
    """Electric load of several households: day and week cycles, a trend, noise. (series, hours)"""
    t = torch.arange(cfg.hours, dtype=torch.float32)
    phase, daily, weekly, trend = torch.rand(4, cfg.series, 1)
    curve = daily * torch.sin(2 * torch.pi * (t / 24 + phase)) + 0.5 * weekly * torch.sin(2 * torch.pi * t / 168)
    return curve + 0.001 * trend * t + 0.1 * torch.randn(cfg.series, cfg.hours)


def windows(curves: Tensor, cfg: Config) -> TensorDataset:
    cuts = curves.unfold(1, cfg.window + cfg.horizon, 1).flatten(0, 1)
    return TensorDataset(cuts[:, : cfg.window, None], cuts[:, cfg.window :])


class Forecaster(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.gru = nn.GRU(1, cfg.hidden_size, cfg.num_layers, batch_first=True)
        self.head = nn.Linear(cfg.hidden_size, cfg.horizon)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.gru(x)
        return x[:, -1] + self.head(states[:, -1])


def main() -> None:
    cfg = parse()
    torch.manual_seed(0)
    curves = load_curves(cfg)
    cut = int(cfg.hours * 0.8)
    loader = DataLoader(windows(curves[:, :cut], cfg), batch_size=cfg.batch_size, shuffle=True)
    test = windows(curves[:, cut:], cfg)
    model = Forecaster(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.learning_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.num_epochs)
    for epoch in range(cfg.num_epochs):
        total = 0.0
        for history, future in loader:
            loss = nn.functional.smooth_l1_loss(model(history), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(history)
        scheduler.step()
        with torch.inference_mode():
            mae = (model(test.tensors[0]) - test.tensors[1]).abs().mean().item()
        print(f"epoch {epoch} loss {total / len(loader.dataset):.4f} test MAE {mae:.4f}")


if __name__ == "__main__":
    main()
