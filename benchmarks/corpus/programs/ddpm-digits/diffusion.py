import math

import torch
from torch import nn
import torch.nn.functional as F


class GaussianDiffusion:
    """Linear schedule; the network predicts the noise (Ho et al., 2020)."""

    def __init__(self, timesteps):
        self.timesteps = timesteps
        self.beta = torch.linspace(1e-4, 0.02, timesteps) * (1000 / timesteps)
        self.beta.clamp_(max=0.5)
        self.alpha_bar = torch.cumprod(1 - self.beta, 0)

    def loss(self, model, x0):
        t = torch.randint(self.timesteps, (len(x0),))
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t].view(-1, 1, 1, 1)
        return F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, model, shape, steps):
        x = torch.randn(shape)
        for i in reversed(range(min(steps, self.timesteps))):
            t = torch.full((shape[0],), i)
            eps = model(x, t)
            x = (x - self.beta[i] / (1 - self.alpha_bar[i]).sqrt() * eps) / (1 - self.beta[i]).sqrt()
            if i:
                x = x + self.beta[i].sqrt() * torch.randn_like(x)
        return x


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, cin), nn.GroupNorm(4, cout)
        self.conv1, self.conv2 = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.time = nn.Linear(tdim, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class EpsNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.dim = channels * 2
        self.embed = nn.Sequential(nn.Linear(self.dim, self.dim), nn.SiLU())
        self.inp = nn.Conv2d(1, channels, 3, padding=1)
        self.d1 = ResBlock(channels, channels, self.dim)
        self.d2 = ResBlock(channels, channels * 2, self.dim)
        self.mid = ResBlock(channels * 2, channels * 2, self.dim)
        self.u1 = ResBlock(channels * 3, channels, self.dim)
        self.out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, t):
        half = self.dim // 2
        freq = torch.exp(-math.log(10000) * torch.arange(half) / half)
        phase = t[:, None].float() * freq
        e = self.embed(torch.cat([phase.sin(), phase.cos()], 1))
        h1 = self.d1(self.inp(x), e)
        h = self.mid(self.d2(F.avg_pool2d(h1, 2), e), e)
        h = self.u1(torch.cat([F.interpolate(h, scale_factor=2), h1], 1), e)
        return self.out(F.silu(h))
