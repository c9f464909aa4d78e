# Factorisation machine (Rendle 2010) for click-through rates; categorical fields, Adagrad written out.
# fm.py --rows N --fields N --rank N --epochs N --batch N
import sys
import torch

argv = sys.argv[1:]
def arg(name, default):
    return int(argv[argv.index('--' + name) + 1]) if '--' + name in argv else default

ROWS = arg('rows', 40000)
FIELDS = arg('fields', 10)
RANK = arg('rank', 8)
EPOCHS = arg('epochs', 3)
BATCH = arg('batch', 512)
PER_FIELD = 200
LR = 0.05

gen = torch.Generator().manual_seed(21)
rand = lambda *size: torch.randn(*size, generator=gen)

# clicks come from an FM of rank 4 that is not known
n = FIELDS * PER_FIELD
rows = torch.randint(PER_FIELD, (ROWS, FIELDS), generator=gen) + PER_FIELD * torch.arange(FIELDS)

def fm(w0, w, V, idx):
    v = V[idx]                                   # (batch, fields, rank)
    pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
    return w0 + w[idx].sum(1) + pairs

with torch.no_grad():
    logit = fm(torch.tensor(-1.0), 0.3 * rand(n), 0.3 * rand(n, 4), rows)
    click = (torch.rand(ROWS, generator=gen) < logit.sigmoid()).float()
cut = ROWS * 9 // 10

w0 = torch.zeros(1, requires_grad=True)
w = torch.zeros(n, requires_grad=True)
V = (0.05 * rand(n, RANK)).requires_grad_()
params = [w0, w, V]
squares = [torch.full_like(p, 0.1) for p in params]

def auc(score, label):
    rank = score.argsort().argsort().float() + 1
    pos = label.sum()
    return ((rank[label > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(label) - pos))).item()

for epoch in range(EPOCHS):
    perm = torch.randperm(cut, generator=gen)
    total = 0.0
    for at in range(0, cut, BATCH):
        b = perm[at:at + BATCH]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(fm(*params, rows[b]), click[b])
        for p, s, g in zip(params, squares, torch.autograd.grad(loss, params)):
            s += g * g
            p.data -= LR * g / s.sqrt()
        total += loss.item() * len(b)
    with torch.no_grad():
        print('epoch', epoch, 'logloss %.4f' % (total / cut), 'AUC %.4f' % auc(fm(*params, rows[cut:]), click[cut:]))
