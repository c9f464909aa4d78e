"""A U-Net of any depth."""
import torch
from torch import nn


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU(),
        nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self, channels: int, depth: int):
        super().__init__()
        widths = [channels * 2 ** level for level in range(depth + 1)]
        self.first = double_conv(1, widths[0])
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(double_conv(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(widths[0], 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(self.pool(skips[-1])))
        x = skips.pop()
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([self.up[level](x), skips[level]], dim=1))
        return self.last(x)
