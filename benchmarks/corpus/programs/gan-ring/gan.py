# GAN on a ring of Gaussians
import argparse, math
import torch
import torch.nn as nn

ap = argparse.ArgumentParser()
ap.add_argument('--n_iters', type=int, default=800)
ap.add_argument('--batch_size', type=int, default=256)
ap.add_argument('--hidden', type=int, default=128)
ap.add_argument('--n_layers', type=int, default=3)
ap.add_argument('--n_critic', type=int, default=1)
ap.add_argument('--z_dim', type=int, default=16)
opt = ap.parse_args()
torch.manual_seed(0)

def mlp(i, o):
    mods = [nn.Linear(i, opt.hidden), nn.LeakyReLU(0.2)]
    for _ in range(opt.n_layers - 1):
        mods += [nn.Linear(opt.hidden, opt.hidden), nn.LeakyReLU(0.2)]
    return nn.Sequential(*mods, nn.Linear(opt.hidden, o))

G, D = mlp(opt.z_dim, 2), mlp(2, 1)
gopt = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.9))
dopt = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.9))
bce = nn.functional.binary_cross_entropy_with_logits

def real_batch(n):
    k = torch.randint(8, (n,)) * (2 * math.pi / 8)
    return torch.stack([k.cos(), k.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)

for it in range(opt.n_iters):
    for _ in range(opt.n_critic):
        x = real_batch(opt.batch_size)
        fake = G(torch.randn(opt.batch_size, opt.z_dim)).detach()
        real_out, fake_out = D(x), D(fake)
        dloss = bce(real_out, torch.ones_like(real_out)) + bce(fake_out, torch.zeros_like(fake_out))
        dopt.zero_grad(); dloss.backward(); dopt.step()
    out = D(G(torch.randn(opt.batch_size, opt.z_dim)))
    gloss = bce(out, torch.ones_like(out))
    gopt.zero_grad(); gloss.backward(); gopt.step()
    if it % 100 == 0:
        print(f'{it:5d}  D {dloss.item():.4f}  G {gloss.item():.4f}')
