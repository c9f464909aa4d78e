import argparse

import torch
from torch import nn

TABLES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652]

p = argparse.ArgumentParser()
p.add_argument("--num-batches", type=int, default=10000)
p.add_argument("--mini-batch-size", type=int, default=2048)
p.add_argument("--dim", type=int, default=64)
o = p.parse_args()

tables = nn.ModuleList(nn.EmbeddingBag(n, o.dim, sparse=True) for n in TABLES)  # on the host: they don't fit
bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, o.dim), nn.ReLU()).cuda()
pairs = (len(TABLES) + 1) * len(TABLES) // 2
top = nn.DataParallel(nn.Sequential(nn.Linear(pairs + o.dim, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1)).cuda())
dense_opt = torch.optim.SGD([*bottom.parameters(), *top.parameters()], 0.1)
sparse_opt = torch.optim.SGD(tables.parameters(), 0.1)


def interact(x, embs):
    t = torch.stack([x, *embs], 1)
    z = t @ t.transpose(1, 2)
    i, j = torch.tril_indices(z.shape[1], z.shape[2], -1)
    return torch.cat([x, z[:, i, j]], 1)


from criteo import batches

for n, (dense, sparse, label) in zip(range(o.num_batches), batches("/datasets/criteo", o.mini_batch_size)):
    looked_up = [t(s).cuda(non_blocking=True) for t, s in zip(tables, sparse)]
    logit = top(interact(bottom(dense.cuda()), looked_up)).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, label.cuda())
    dense_opt.zero_grad(); sparse_opt.zero_grad()
    loss.backward()
    dense_opt.step(); sparse_opt.step()
