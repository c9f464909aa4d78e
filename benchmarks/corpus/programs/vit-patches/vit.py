import argparse
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, img_size, patch, dim, depth, heads, classes):
        super().__init__()
        self.patchify = nn.Conv2d(1, dim, patch, patch)
        tokens = (img_size // patch) ** 2
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, tokens + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, img):
        x = self.patchify(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def moving_dots(n, size):
    """Two dots; the class says in which quadrant the second lies, seen from the first."""
    a = torch.randint(size // 4, 3 * size // 4, (n, 2))
    quadrant = torch.randint(4, (n,))
    sign = torch.stack([(quadrant % 2) * 2 - 1, (quadrant // 2) * 2 - 1], 1)
    b = (a + sign * torch.randint(2, size // 4, (n, 2))).clamp(0, size - 1)
    img = torch.randn(n, 1, size, size) * 0.1
    rows = torch.arange(n)
    img[rows, 0, a[:, 0], a[:, 1]] = 3.0
    img[rows, 0, b[:, 0], b[:, 1]] = -3.0
    return img, quadrant


def main(args):
    torch.manual_seed(1234)
    loader = DataLoader(TensorDataset(*moving_dots(args.train_size, args.img_size)), args.batch, shuffle=True)
    model = ViT(args.img_size, args.patch, args.dim, args.depth, args.heads, 4)
    optim = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    loss_fn = nn.CrossEntropyLoss()
    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        total = hits = 0
        for img, target in loader:
            optim.zero_grad()
            out = model(img)
            loss = loss_fn(out, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            total += loss.item() * len(img)
            hits += (out.argmax(-1) == target).sum().item()
        n = len(loader.dataset)
        print(f'epoch {epoch} | loss {total / n:.4f} | top1 {hits / n:.3f} | {time.time() - start:.1f}s')


if __name__ == '__main__':
    parser = argparse.ArgumentParser('ViT')
    parser.add_argument('--epochs', default=5, type=int)
    parser.add_argument('--batch', default=64, type=int)
    parser.add_argument('--train_size', default=800, type=int)
    parser.add_argument('--img_size', default=32, type=int)
    parser.add_argument('--patch', default=8, type=int)
    parser.add_argument('--dim', default=64, type=int)
    parser.add_argument('--depth', default=2, type=int)
    parser.add_argument('--heads', default=4, type=int)
    parser.add_argument('--lr', default=1e-3, type=float)
    main(parser.parse_args())
