import sys
import getopt
import torch
from torch.nn import functional as F

# Siamese network with the contrastive loss on synthetic signatures (time series of pen positions).
EPOCHS, PAIRS, BATCH, LENGTH, HIDDEN, WRITERS = 5, 1024, 64, 64, 64, 40
opts, rest = getopt.getopt(sys.argv[1:], 'e:p:b:', ['epochs=', 'pairs=', 'batch=', 'length=', 'hidden='])
for name, value in opts:
    if name in ('-e', '--epochs'): EPOCHS = int(value)
    if name in ('-p', '--pairs'): PAIRS = int(value)
    if name in ('-b', '--batch'): BATCH = int(value)
    if name == '--length': LENGTH = int(value)
    if name == '--hidden': HIDDEN = int(value)

torch.manual_seed(17)
t = torch.linspace(0, 1, LENGTH)
coef = torch.randn(WRITERS, 2, 6)

def write(who):
    c = coef[who] + 0.15 * torch.randn(len(who), 2, 6)
    basis = torch.stack([torch.sin(3.14 * (k + 1) * t) for k in range(6)])
    return c @ basis + 0.02 * torch.randn(len(who), 2, LENGTH)

def tower(x, w):
    for k in range(3):
        x = F.leaky_relu(F.conv1d(x, w[2 * k], w[2 * k + 1], stride=1, padding=2), 0.1)
        x = F.avg_pool1d(x, 2)
    return x.mean(2) @ w[6]

def param(*shape):
    fan = 1
    for s in shape[1:]: fan *= s
    return (torch.randn(*shape) / fan ** 0.5).requires_grad_()

w = [param(HIDDEN // 2, 2, 5), torch.zeros(HIDDEN // 2, requires_grad=True),
     param(HIDDEN, HIDDEN // 2, 5), torch.zeros(HIDDEN, requires_grad=True),
     param(HIDDEN, HIDDEN, 5), torch.zeros(HIDDEN, requires_grad=True), param(HIDDEN, 16)]

for e in range(EPOCHS):
    total, right = 0., 0
    for b in range(PAIRS // BATCH):
        first = torch.randint(WRITERS, (BATCH,))
        same = torch.rand(BATCH) < 0.5
        second = torch.where(same, first, torch.randint(WRITERS, (BATCH,)))
        same = first == second
        d = (tower(write(first), w) - tower(write(second), w)).pow(2).sum(1).add(1e-8).sqrt()
        loss = torch.where(same, d ** 2, F.relu(1 - d) ** 2).mean()
        grads = torch.autograd.grad(loss, w)
        norm = torch.stack([g.norm() for g in grads]).norm()
        with torch.no_grad():
            for p, g in zip(w, grads):
                p -= 0.05 * g / max(1., norm.item())
        total += loss.item()
        right += ((d < 0.5) == same).sum().item()
    print('epoch', e, 'contrastive loss %.4f' % (total / (PAIRS // BATCH)), 'accuracy %.3f' % (right / PAIRS))
