"""GNMT-like LSTM encoder/decoder, WMT16 en-de, mixed precision."""
import argparse
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, v, d=1024, layers=4):
        super().__init__()
        self.emb = nn.Embedding(v, d, padding_idx=0)
        self.bi = nn.LSTM(d, d, 1, batch_first=True, bidirectional=True)
        self.rest = nn.ModuleList([nn.LSTM(2 * d if i == 0 else d, d, 1, batch_first=True) for i in range(layers - 1)])

    def forward(self, x):
        h, _ = self.bi(self.emb(x))
        for i, layer in enumerate(self.rest):
            y, _ = layer(nn.functional.dropout(h, 0.2, self.training))
            h = y if i == 0 else h + y
        return h


class Decoder(nn.Module):
    def __init__(self, v, d=1024):
        super().__init__()
        self.emb, self.attn = nn.Embedding(v, d, padding_idx=0), nn.MultiheadAttention(d, 1, batch_first=True)
        self.rnn, self.out = nn.LSTM(2 * d, d, 3, batch_first=True), nn.Linear(d, v)

    def forward(self, y, memory):
        e = self.emb(y)
        context, _ = self.attn(e, memory, memory)
        h, _ = self.rnn(torch.cat([e, context], -1))
        return self.out(h)


def cli():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--train-batch-size", type=int, default=128)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


def main():
    a = cli()
    enc, dec = Encoder(32320).cuda(), Decoder(32320).cuda()
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], a.lr)
    from wmt import batches

    for epoch in range(a.epochs):
        for src, tgt in batches("/datasets/wmt16", a.train_batch_size):
            with torch.autocast("cuda", torch.float16):
                logits = dec(tgt[:, :-1].cuda(), enc(src.cuda()))
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten().cuda(), ignore_index=0)
            loss.backward()
            opt.step()
            opt.zero_grad()
        print(f"{epoch=} {loss.item()=:.3f}")


main()
