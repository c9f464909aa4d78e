# Neural collaborative filtering, MovieLens-20M
import argparse
import torch
import torch.nn as nn


class NeuMF(nn.Module):
    def __init__(self, users, items, mf, layers):
        super().__init__()
        self.mu, self.mi = nn.Embedding(users, mf), nn.Embedding(items, mf)
        self.lu, self.li = nn.Embedding(users, layers[0] // 2), nn.Embedding(items, layers[0] // 2)
        self.mlp = nn.Sequential(*[m for a, b in zip(layers, layers[1:]) for m in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.5))])
        self.final = nn.Linear(layers[-1] + mf, 1)

    def forward(self, u, i):
        deep = self.mlp(torch.cat([self.lu(u), self.li(i)], 1))
        return self.final(torch.cat([self.mu(u) * self.mi(i), deep], 1)).squeeze(1)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--data")
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch_size", type=int, default=2**20)
    ap.add_argument("--factors", type=int, default=64)
    ap.add_argument("--layers", type=int, nargs="+", default=[256, 256, 128, 64])
    ap.add_argument("--negative_samples", type=int, default=4)
    a = ap.parse_args()
    ratings = torch.load(f"{a.data}/train_ratings.pt").cuda()
    net = NeuMF(138493, 26744, a.factors, a.layers).cuda()
    opt = torch.optim.Adam(net.parameters(), 4.5e-3, betas=(0.25, 0.5))
    scaler = torch.amp.GradScaler()
    for epoch in range(a.epochs):
        perm = torch.randperm(len(ratings) * (1 + a.negative_samples), device="cuda")
        for idx in perm.split(a.batch_size):
            pos = idx < len(ratings)
            u = ratings[idx % len(ratings), 0]
            i = torch.where(pos, ratings[idx % len(ratings), 1], torch.randint(0, 26744, idx.shape, device="cuda"))
            with torch.autocast("cuda", torch.float16):
                loss = nn.functional.binary_cross_entropy_with_logits(net(u, i), pos.float())
            opt.zero_grad(); scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
