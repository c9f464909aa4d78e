#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch

text = torch.load("/scratch/lea/tiny_shakespeare.pt").cuda()
Wxh = torch.empty(65, 3 * 224).normal_(0, 0.01).cuda().requires_grad_()
Whh = torch.empty(224, 3 * 224).normal_(0, 0.01).cuda().requires_grad_()
Why = torch.empty(224, 65).normal_(0, 0.01).cuda().requires_grad_()
bh = torch.zeros(3 * 224).cuda().requires_grad_()
by = torch.zeros(65).cuda().requires_grad_()
everything = [Wxh, Whh, Why, bh, by]
mean = [torch.zeros_like(v) for v in everything]
square = [torch.zeros_like(v) for v in everything]
n = 0
for sweep in range(55):
    for start in range(0, len(text) // 48 - 76, 75):
        h = torch.zeros(48, 224).cuda()
        total = 0
        for k in range(75):
            here = text[torch.arange(48) * (len(text) // 48) + start + k]
            there = text[torch.arange(48) * (len(text) // 48) + start + k + 1]
            a = Wxh[here] + bh
            b = h @ Whh
            r = torch.sigmoid(a[:, :224] + b[:, :224])
            u = torch.sigmoid(a[:, 224:448] + b[:, 224:448])
            c = torch.tanh(a[:, 448:] + r * b[:, 448:])
            h = u * h + (1 - u) * c
            total = total - torch.log_softmax(h @ Why + by, 1)[torch.arange(48), there].mean()
        grads = torch.autograd.grad(total / 75, everything)
        norm = sum((g ** 2).sum() for g in grads) ** 0.5
        n += 1
        for v, g, m, s in zip(everything, grads, mean, square):
            g = g * min(1, 0.25 / norm)
            m.mul_(0.9).add_(0.1 * g)
            s.mul_(0.999).add_(0.001 * g * g)
            v.data -= 0.004 * (m / (1 - 0.9 ** n)) / ((s / (1 - 0.999 ** n)) ** 0.5 + 1e-8)
    print("sweep", sweep, "bits", total.item() / 75 / 0.6931)
