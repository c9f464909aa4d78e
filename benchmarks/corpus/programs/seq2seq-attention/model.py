import torch
from torch import nn


class Attention(nn.Module):
    """Bahdanau's: score = v . tanh(W q + U k)"""

    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, d, bias=False)
        self.u = nn.Linear(2 * d, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)

    def keys(self, memory):
        return self.u(memory)

    def forward(self, query, keys, memory, mask):
        score = self.v(torch.tanh(self.w(query)[:, None] + keys)).squeeze(-1)
        weight = score.masked_fill(~mask, float("-inf")).softmax(-1)
        return torch.bmm(weight[:, None], memory).squeeze(1)


class Seq2Seq(nn.Module):
    def __init__(self, n_symbols, d):
        super().__init__()
        self.embed = nn.Embedding(n_symbols, d, padding_idx=0)
        self.encoder = nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * d, d)
        self.attention = Attention(d)
        self.cell = nn.GRUCell(3 * d, d)
        self.out = nn.Linear(3 * d, n_symbols)

    def forward(self, src, mask, tgt):
        memory, last = self.encoder(self.embed(src))
        state = torch.tanh(self.bridge(torch.cat([last[0], last[1]], -1)))
        keys = self.attention.keys(memory)
        outputs = []
        for step in self.embed(tgt).unbind(1):  # teacher forcing
            context = self.attention(state, keys, memory, mask)
            state = self.cell(torch.cat([step, context], -1), state)
            outputs.append(torch.cat([state, context], -1))
        return self.out(torch.stack(outputs, 1))
