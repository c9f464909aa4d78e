"""Point clouds of a sphere, cube, torus, cone and plane, rotated at random."""
import math

import torch


def sphere(n):
    p = torch.randn(n, 3)
    return p / p.norm(dim=1, keepdim=True)


def cube(n):
    p = torch.rand(n, 3) * 2 - 1
    face = torch.randint(3, (n,))
    p[torch.arange(n), face] = torch.sign(p[torch.arange(n), face])
    return p


def torus(n):
    a, b = torch.rand(2, n) * 2 * math.pi
    r = 1 + 0.3 * b.cos()
    return torch.stack([r * a.cos(), r * a.sin(), 0.3 * b.sin()], 1)


def cone(n):
    h, a = torch.rand(n).sqrt(), torch.rand(n) * 2 * math.pi
    return torch.stack([h * a.cos(), h * a.sin(), 1 - 2 * h], 1)


def plane(n):
    return torch.cat([torch.rand(n, 2) * 2 - 1, torch.zeros(n, 1)], 1)


KINDS = (sphere, cube, torus, cone, plane)


def clouds(count, points):
    """(count, points, 3) and the kinds."""
    kind = torch.randint(len(KINDS), (count,))
    turn = torch.linalg.qr(torch.randn(count, 3, 3)).Q
    cloud = torch.stack([KINDS[k](points) for k in kind.tolist()])
    return cloud @ turn + 0.03 * torch.randn(count, points, 3), kind
