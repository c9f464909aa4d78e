"""Physics-informed network for cavity flow: Navier-Stokes residual by autograd, full-batch Adam in single precision."""
import argparse

import torch

torch.set_float32_matmul_precision("highest")
ap = argparse.ArgumentParser()
ap.add_argument("--iterations", type=int, default=20000)
ap.add_argument("--points", type=int, default=200_000)
ap.add_argument("--width", type=int, default=512)
ap.add_argument("--depth", type=int, default=8)
ap.add_argument("--re", type=float, default=1000.0)
a = ap.parse_args()

layers = [torch.nn.Linear(2, a.width), torch.nn.Tanh()]
for _ in range(a.depth - 1):
    layers += [torch.nn.Linear(a.width, a.width), torch.nn.Tanh()]
net = torch.nn.Sequential(*layers, torch.nn.Linear(a.width, 3)).cuda()
xy = torch.rand(a.points, 2, device="cuda", requires_grad=True)
opt = torch.optim.Adam(net.parameters(), 1e-3)


def grad(u):
    return torch.autograd.grad(u.sum(), xy, create_graph=True)[0]


for it in range(a.iterations):
    u, v, p = net(xy).unbind(1)
    du, dv, dp = grad(u), grad(v), grad(p)
    lap_u = grad(du[:, 0])[:, 0] + grad(du[:, 1])[:, 1]
    lap_v = grad(dv[:, 0])[:, 0] + grad(dv[:, 1])[:, 1]
    ru = u * du[:, 0] + v * du[:, 1] + dp[:, 0] - lap_u / a.re
    rv = u * dv[:, 0] + v * dv[:, 1] + dp[:, 1] - lap_v / a.re
    loss = (ru**2 + rv**2 + (du[:, 0] + dv[:, 1]) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if it % 500 == 0:
        print(it, loss.item())
