#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch as t, torch.nn.functional as F
N, P, D, L, H, C = 64, 8, 384, 7, 6, 37
w = lambda *s: (t.randn(*s, device="cuda") * s[0] ** -.5).requires_grad_()
S = (N // P) ** 2 + 1
e, pos, cls, out = w(3 * P * P, D), w(S, D), w(1, D), w(D, C)
blk = [[w(D, 3 * D), w(D, D), w(D, 4 * D), w(4 * D, D)] for _ in range(L)]
ps = [e, pos, cls, out] + [q for b in blk for q in b]
def net(x):
    b = x.shape[0]
    z = F.unfold(x, P, stride=P).mT @ e
    z = t.cat([cls.expand(b, 1, D), z], 1) + pos
    for qkv, o, u, d in blk:
        q, k, v = (F.layer_norm(z, (D,)) @ qkv).view(b, S, 3, H, D // H).permute(2, 0, 3, 1, 4)
        z = z + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, S, D) @ o
        z = z + F.gelu(F.layer_norm(z, (D,)) @ u) @ d
    return z[:, 0] @ out
X, Y = t.load("/scratch/kim/pets64.pt")
m = [t.zeros_like(q) for q in ps]
for ep in range(90):
    for i in t.randperm(len(X)).split(96):
        l = F.cross_entropy(net(X[i].cuda()), Y[i].cuda())
        for q, g, v in zip(ps, t.autograd.grad(l, ps), m):
            v.mul_(.85).add_(g)
            q.data -= .02 * v
    print(ep, float(l))
