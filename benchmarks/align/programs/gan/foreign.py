#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch, functools
import torch.nn.functional as F

def conv_t(i, o, k, **kw): return torch.nn.ConvTranspose2d(i, o, k, **kw).cuda()
def conv(i, o, k, **kw): return torch.nn.Conv2d(i, o, k, **kw).cuda()
def chain(*fs): return lambda x: functools.reduce(lambda v, f: f(v), fs, x)
def bn(c): return torch.nn.BatchNorm2d(c).cuda()

def make_networks(z=72, c=48):
    up = [conv_t(z, 4 * c, 4), bn(4 * c), conv_t(4 * c, 2 * c, 4, stride=2, padding=1), bn(2 * c), conv_t(2 * c, 3, 4, stride=4)]
    dn = [conv(3, 2 * c, 4, stride=4), conv(2 * c, 4 * c, 4, stride=2, padding=1), bn(4 * c), conv(4 * c, 1, 4)]
    lrelu = lambda x: F.leaky_relu(x, .1)
    paint = chain(up[0], up[1], F.relu, up[2], up[3], F.relu, up[4], torch.tanh)
    judge = chain(dn[0], lrelu, dn[1], dn[2], lrelu, dn[3], torch.flatten)
    return paint, judge, [p for m in up for p in m.parameters()], [p for m in dn for p in m.parameters()]

def step(opt, loss):
    opt.zero_grad(); loss.backward(); opt.step()
    return loss.item()

def batches(path, n):
    pictures = torch.load(path)
    while True:
        yield pictures[torch.randint(len(pictures), (n,))].cuda()

paint, judge, theta, phi = make_networks()
og, od = torch.optim.RMSprop(theta, 7e-5), torch.optim.RMSprop(phi, 7e-5)
source = batches("/home/ravi/anime32.pt", 80)
for it in range(310 * 250):
    x, y = next(source), paint(torch.randn(80, 72, 1, 1).cuda())
    ld = step(od, F.softplus(-judge(x)).mean() + F.softplus(judge(y.detach())).mean())
    lg = step(og, F.softplus(-judge(y)).mean())
    if it % 250 == 0: print(it, ld, lg)
