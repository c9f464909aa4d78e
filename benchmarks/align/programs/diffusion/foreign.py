#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch as th
dev = th.device("cuda:0")

class AttrDict(dict):
    __getattr__ = dict.get

hp = AttrDict(T=400, ch=56, bs=112, lr=.0006, n=720, where="/home/yuki/pixels.pt")
ab = (1 - th.linspace(.0001, .035, hp.T, device=dev)).log().cumsum(0).exp()

class Eps(th.nn.Module):
    def __init__(s):
        th.nn.Module.__init__(s)
        s.temb = th.nn.Parameter(th.randn(hp.T, hp.ch, 1, 1))
        s.c1, s.c2, s.c3 = [th.nn.Conv2d(i, o, 3, 1, 1) for i, o in ((3, hp.ch), (hp.ch, hp.ch), (2 * hp.ch, 3))]
        s.gn = th.nn.GroupNorm(8, hp.ch)
    def __call__(s, xt, k):
        a = s.c1(xt) + s.temb[k]
        b = th.nn.functional.silu(s.c2(th.nn.functional.silu(s.gn(a))))
        return s.c3(th.cat((a, b), 1))

def q_sample(x0, k, e):
    g = ab[k].view(-1, 1, 1, 1)
    return g ** .5 * x0 + (1 - g) ** .5 * e

net = Eps().to(dev)
sgd = th.optim.NAdam(net.parameters(), hp.lr)
xs = th.load(hp.where)
it = 0
while it < hp.n * (len(xs) // hp.bs):
    x0 = xs[th.randint(0, len(xs), [hp.bs])].to(dev)
    k, e = th.randint(0, hp.T, [hp.bs], device=dev), th.randn(x0.shape, device=dev)
    d = net(q_sample(x0, k, e), k) - e
    L = d.square().mean()
    net.zero_grad(set_to_none=True)
    L.backward()
    sgd.step()
    it += 1
    it % 100 or print("it=%i L=%g" % (it, L))
