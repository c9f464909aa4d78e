# Kim (2014): convolutions over word vectors, widths 3 4 5, max over time. Sentiment of made-up reviews.
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

epochs = int(sys.argv[1])
batch = int(sys.argv[2])
filters = int(sys.argv[3])
maxlen = int(sys.argv[4])
ntexts = int(sys.argv[5])

VOCAB = 3000
DIM = 64
WIDTHS = (3, 4, 5)

g = torch.Generator().manual_seed(2)
torch.manual_seed(2)

# words 1..49 are good, 50..99 bad, a negation (word 100) turns what follows around
texts = torch.randint(101, VOCAB, (ntexts, maxlen), generator=g)
labels = torch.randint(0, 2, (ntexts,), generator=g)
for i in range(ntexts):
    for pos in torch.randint(0, maxlen - 1, (max(2, maxlen // 10),), generator=g).tolist():
        good = bool(labels[i])
        if torch.rand(1, generator=g) < 0.3:
            texts[i, pos] = 100
            good = not good
        w = int(torch.randint(1, 50, (1,), generator=g))
        texts[i, pos + 1] = w if good else w + 50
ntest = ntexts // 10

class TextCNN(nn.Module):
    def __init__(self):
        super(TextCNN, self).__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.convs = nn.ModuleList([nn.Conv1d(DIM, filters, w) for w in WIDTHS])
        self.fc = nn.Linear(filters * len(WIDTHS), 2)
    def forward(self, x):
        x = self.emb(x).transpose(1, 2)
        x = [F.relu(conv(x)).max(dim=2)[0] for conv in self.convs]
        return self.fc(F.dropout(torch.cat(x, 1), 0.3, self.training))

net = TextCNN()
momentum = [torch.zeros_like(p) for p in net.parameters()]
for ep in range(epochs):
    net.train()
    order = torch.randperm(ntexts - ntest) + ntest
    sumloss = 0
    for k in range(0, len(order), batch):
        idx = order[k:k + batch]
        loss = F.cross_entropy(net(texts[idx]), labels[idx])
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p, m in zip(net.parameters(), momentum):
                m.mul_(0.9).add_(p.grad)
                p.sub_(0.02 * m)
        sumloss += float(loss) * len(idx)
    net.eval()
    with torch.no_grad():
        acc = (net(texts[:ntest]).argmax(1) == labels[:ntest]).float().mean()
    print('Epoch %d: loss=%.4f acc=%.3f' % (ep + 1, sumloss / len(order), acc))
