import argparse

import torch
from torch import nn

# Tacotron 2: characters to mel spectrograms, location-sensitive attention, teacher forcing frame by frame.


class Attention(nn.Module):
    def __init__(self, q=1024, m=512, d=128):
        super().__init__()
        self.q, self.m, self.v = nn.Linear(q, d, False), nn.Linear(m, d, False), nn.Linear(d, 1, False)
        self.loc = nn.Sequential(nn.Conv1d(2, 32, 31, padding=15, bias=False))
        self.locd = nn.Linear(32, d, False)

    def forward(self, query, memory, weights):
        e = self.v(torch.tanh(self.q(query)[:, None] + self.m(memory) + self.locd(self.loc(weights).transpose(1, 2))))
        w = e.squeeze(-1).softmax(-1)
        return (w[:, None] @ memory).squeeze(1), w


class Tacotron(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(148, 512)
        self.enc = nn.LSTM(512, 256, 1, batch_first=True, bidirectional=True)
        self.pre = nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU())
        self.arnn, self.drnn = nn.LSTMCell(256 + 512, 1024), nn.LSTMCell(1024 + 512, 1024)
        self.att, self.proj = Attention(), nn.Linear(1024 + 512, 80)

    def forward(self, text, mels):
        memory, _ = self.enc(self.emb(text))
        ctx = memory.new_zeros(len(text), 512)
        w = memory.new_zeros(len(text), 2, memory.shape[1])
        a = d = None
        out = []
        for frame in mels.unbind(1):
            a = self.arnn(torch.cat([self.pre(frame), ctx], -1), a)
            ctx, now = self.att(a[0], memory, w)
            w = torch.stack([now, w[:, 1] + now], 1)
            d = self.drnn(torch.cat([a[0], ctx], -1), d)
            out.append(self.proj(torch.cat([d[0], ctx], -1)))
        return torch.stack(out, 1)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=48)
args = parser.parse_args()
net = Tacotron().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3, weight_decay=1e-6)
from ljspeech import text_mel_batches

for epoch in range(args.epochs):
    for text, mel in text_mel_batches(args.batch_size):
        loss = nn.functional.mse_loss(net(text.cuda(), mel.cuda()), mel.cuda())
        opt.zero_grad(); loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
