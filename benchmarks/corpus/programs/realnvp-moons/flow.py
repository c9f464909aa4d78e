import sys
from math import log, pi
import torch
from torch import nn

# RealNVP density estimation of two moons, padded with noise dimensions
# --iters N --bs N --couplings N --hidden N --dims N
flags = dict(iters=300, bs=256, couplings=4, hidden=64, dims=2)
words = iter(sys.argv[1:])
for word in words:
    flags[word.lstrip('-')] = int(next(words))
iters, bs, couplings, hidden, dims = (flags[k] for k in ('iters', 'bs', 'couplings', 'hidden', 'dims'))

torch.manual_seed(6)


def moons(n):
    a = torch.rand(n) * pi
    upper = torch.rand(n) < 0.5
    x = torch.where(upper, a.cos(), 1 - a.cos())
    y = torch.where(upper, a.sin(), 0.5 - a.sin())
    xy = torch.stack([x, y], 1) + 0.07 * torch.randn(n, 2)
    return torch.cat([xy, torch.randn(n, dims - 2)], 1) if dims > 2 else xy


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip, self.half = flip, dims // 2
        self.net = nn.Sequential(nn.Linear(self.half, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2 * (dims - self.half)))

    def forward(self, x):
        if self.flip:
            x = x.flip(1)
        kept, moved = x[:, :self.half], x[:, self.half:]
        shift, scale = self.net(kept).chunk(2, 1)
        scale = scale.tanh()
        return torch.cat([kept, moved * scale.exp() + shift], 1), scale.sum(1)


flow = nn.ModuleList(Coupling(k % 2) for k in range(couplings))
optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
for it in range(iters):
    z, logdet = moons(bs), 0
    for layer in flow:
        z, ld = layer(z)
        logdet = logdet + ld
    nll = (0.5 * z.square().sum(1) + 0.5 * dims * log(2 * pi) - logdet).mean()
    optimizer.zero_grad()
    nll.backward()
    optimizer.step()
    if it % 50 == 0 or it == iters - 1:
        print('it', it, 'nll', round(nll.item(), 4))
