"""Character language model on generated 'prose', truncated backpropagation through time."""
import argparse
import math
import time

import torch
import torch.nn as nn

import data

parser = argparse.ArgumentParser()
parser.add_argument('--cell', default='lstm', choices=['lstm', 'gru'])
parser.add_argument('--nhid', type=int, default=96)
parser.add_argument('--emsize', type=int, default=32)
parser.add_argument('--nlayers', type=int, default=1)
parser.add_argument('--bptt', type=int, default=32)
parser.add_argument('--batch_size', type=int, default=32)
parser.add_argument('--chars', type=int, default=40000)
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--lr', type=float, default=4.0)
parser.add_argument('--dropout', type=float, default=0.0)
parser.add_argument('--clip', type=float, default=1.0)
args = parser.parse_args()

torch.manual_seed(1111)
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')


class CharModel(nn.Module):
    def __init__(self, ntoken):
        super().__init__()
        cell = {'lstm': nn.LSTM, 'gru': nn.GRU}[args.cell]
        self.drop = nn.Dropout(args.dropout)
        self.encoder = nn.Embedding(ntoken, args.emsize)
        self.rnn = cell(args.emsize, args.nhid, args.nlayers)
        self.decoder = nn.Linear(args.nhid, ntoken)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(out)), hidden


def detach(h):
    return tuple(detach(v) for v in h) if isinstance(h, tuple) else h.detach()


text = data.prose(args.chars, seed=9)
letters = sorted(set(text))
ids = torch.tensor([letters.index(c) for c in text])
nbatch = len(ids) // args.batch_size
ids = ids[: nbatch * args.batch_size].view(args.batch_size, -1).t().contiguous().to(device)
cut = int(0.9 * len(ids))
train, valid = ids[:cut], ids[cut:]

model = CharModel(len(letters)).to(device)
lossf = nn.CrossEntropyLoss()


def run(source, learn):
    model.train(learn)
    total, hidden = 0.0, None
    for i in range(0, len(source) - 1, args.bptt):
        n = min(args.bptt, len(source) - 1 - i)
        with torch.set_grad_enabled(learn):
            out, hidden = model(source[i:i + n], None if hidden is None else detach(hidden))
            loss = lossf(out.flatten(0, 1), source[i + 1:i + 1 + n].flatten())
        if learn:
            model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-args.lr)
        total += n * loss.item()
    return total / (len(source) - 1)


for epoch in range(1, args.epochs + 1):
    start = time.time()
    fit, val = run(train, True), run(valid, False)
    print(f'| epoch {epoch:3d} | {time.time() - start:5.2f}s | train {fit:.3f} | valid {val:.3f} | ppl {math.exp(val):.2f}')
