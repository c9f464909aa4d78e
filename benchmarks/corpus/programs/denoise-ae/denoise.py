import argparse
import torch
import torch.nn as nn

# convolutional denoising autoencoder on random polylines

def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-epochs", type=int, default=4)
    parser.add_argument("--bs", type=int, default=32)
    parser.add_argument("--n-images", type=int, default=600)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--bottleneck", type=int, default=8)
    parser.add_argument("--noise", type=float, default=0.3)
    return parser.parse_args()

def lines(n, side):
    """every image: a line a*x + b*y + c = 0 of soft width, and a second one"""
    g = torch.linspace(-1, 1, side)
    img = torch.zeros(n, 1, side, side)
    for _ in range(2):
        angle, offset = torch.rand(n, 1, 1) * 3.1416, torch.rand(n, 1, 1) - 0.5
        d = g.view(1, side, 1) * angle.sin() + g.view(1, 1, side) * angle.cos() - offset
        img = torch.maximum(img, torch.exp(-(d * 12) ** 2).unsqueeze(1))
    return img

class AutoEncoder(nn.Module):
    def __init__(self, f, k):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, f, 3, 2, 1), nn.ELU(), nn.Conv2d(f, 2 * f, 3, 2, 1), nn.ELU(), nn.Conv2d(2 * f, k, 1))
        self.dec = nn.Sequential(nn.Conv2d(k, 2 * f, 3, 1, 1), nn.ELU(), nn.Upsample(scale_factor=2), nn.Conv2d(2 * f, f, 3, 1, 1), nn.ELU(), nn.Upsample(scale_factor=2), nn.Conv2d(f, 1, 3, 1, 1))
    def forward(self, x):
        return self.dec(self.enc(x))

def rmsprop(params, cache, lr=1e-3):
    with torch.no_grad():
        for p, c in zip(params, cache):
            c.mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            p.addcdiv_(p.grad, c.sqrt() + 1e-6, value=-lr)
            p.grad.zero_()

args = get_args()
torch.manual_seed(5)
clean = lines(args.n_images, args.side)
net = AutoEncoder(args.filters, args.bottleneck)
params = list(net.parameters())
cache = [torch.zeros_like(p) for p in params]
mse = nn.MSELoss()
for ep in range(args.n_epochs):
    tot = 0
    for b in torch.randperm(args.n_images).split(args.bs):
        x = clean[b]
        loss = mse(net(x + args.noise * torch.randn_like(x)), x)
        loss.backward()
        rmsprop(params, cache)
        tot += loss.item() * len(b)
    print("epoch {}: mse {:.5f}".format(ep, tot / args.n_images))
