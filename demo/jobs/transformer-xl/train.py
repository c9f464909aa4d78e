# Transformer-XL base on WikiText-103: segment recurrence, relative positions.
import argparse
import math
import torch
import torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--cuda", action="store_true")
p.add_argument("--data")
p.add_argument("--dataset", default="wt103")
p.add_argument("--n_layer", type=int, default=16)
p.add_argument("--d_model", type=int, default=512)
p.add_argument("--n_head", type=int, default=8)
p.add_argument("--tgt_len", type=int, default=192)
p.add_argument("--mem_len", type=int, default=192)
p.add_argument("--batch_size", type=int, default=64)
p.add_argument("--max_step", type=int, default=2000)
p.add_argument("--fp16", action="store_true", default=True)
args = p.parse_args()


class RelAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.q, self.kv, self.r = h, nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.u = nn.Parameter(torch.zeros(h, d // h))
        self.o = nn.Linear(d, d)

    def forward(self, x, mem, pos):
        ctx = torch.cat([mem, x], 1)
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.kv(ctx).chunk(2, -1))
        r = self.r(pos).unflatten(-1, (self.h, -1)).transpose(0, 1)
        score = (q + self.u[:, None]) @ k.transpose(-1, -2) + q @ r.transpose(-1, -2)
        w = torch.softmax(score / math.sqrt(q.shape[-1]), -1)
        return self.o((w @ v).transpose(1, 2).flatten(2))


class XL(nn.Module):
    def __init__(self, vocab=267735):
        super().__init__()
        self.emb = nn.Embedding(vocab, args.d_model)
        self.layers = nn.ModuleList(RelAttn(args.d_model, args.n_head) for _ in range(args.n_layer))
        self.loss = nn.AdaptiveLogSoftmaxWithLoss(args.d_model, vocab, [20000, 40000, 200000])

    def forward(self, x, y, mems, pos):
        h, new = self.emb(x), []
        for layer, mem in zip(self.layers, mems):
            new.append(h.detach()[:, -args.mem_len:])
            h = h + layer(h, mem, pos)
        return self.loss(h.flatten(0, 1), y.flatten()).loss, new


stream = torch.load(f"{args.data}/train.pt").view(args.batch_size, -1).cuda()
model = XL().cuda()
optim = torch.optim.Adam(model.parameters(), 2.5e-4)
mems = [torch.zeros(args.batch_size, args.mem_len, args.d_model).cuda() for _ in range(args.n_layer)]
pos = torch.randn(args.tgt_len + args.mem_len, args.d_model).cuda()
for step in range(args.max_step):
    i = step * args.tgt_len % (stream.shape[1] - args.tgt_len - 1)
    with torch.autocast("cuda"):
        loss, mems = model(stream[:, i:i + args.tgt_len], stream[:, i + 1:i + 1 + args.tgt_len], mems, pos)
    loss.backward(); optim.step(); optim.zero_grad()
