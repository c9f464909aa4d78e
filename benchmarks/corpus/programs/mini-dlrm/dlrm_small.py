"""A small recommendation model in the manner of DLRM (Naumov et al. 2019): bottom MLP for dense features, embedding
bags for sparse ones, dot-product interactions, top MLP. Clicks are synthetic."""
from __future__ import print_function

import argparse

import numpy as np
import torch
from torch import nn


class DLRM(nn.Module):
    def create_mlp(self, ln):
        layers = nn.ModuleList()
        for n, m in zip(ln[:-1], ln[1:]):
            LL = nn.Linear(int(n), int(m))
            nn.init.normal_(LL.weight, 0.0, np.sqrt(2 / (m + n)))
            nn.init.normal_(LL.bias, 0.0, np.sqrt(1 / m))
            layers.append(LL)
            layers.append(nn.ReLU())
        return nn.Sequential(*layers[:-1])

    def create_emb(self, m, ln):
        return nn.ModuleList(nn.EmbeddingBag(n, m, mode="sum") for n in ln)

    def __init__(self, m_spa, ln_emb, ln_bot, ln_top):
        super().__init__()
        self.emb_l = self.create_emb(m_spa, ln_emb)
        self.bot_l = self.create_mlp(ln_bot)
        n = len(ln_emb) + 1
        self.pairs = torch.tril_indices(n, n, -1)
        self.top_l = self.create_mlp([m_spa + self.pairs.shape[1]] + ln_top)

    def forward(self, dense, sparse):
        x = self.bot_l(dense)
        ly = [emb(index) for emb, index in zip(self.emb_l, sparse)]
        T = torch.stack([x] + ly, dim=1)
        Z = torch.bmm(T, T.transpose(1, 2))
        R = torch.cat([x, Z[:, self.pairs[0], self.pairs[1]]], dim=1)
        return self.top_l(R)


def generate(rng, size, num_dense, ln_emb, lookups, secrets):
    dense = rng.random((size, num_dense)).astype(np.float32)
    sparse = [rng.integers(n, size=(size, lookups)) for n in ln_emb]
    score = dense.sum(1) - num_dense / 2 + sum(s[i].mean(1) for s, i in zip(secrets, sparse))
    click = (score + 0.5 * rng.standard_normal(size) > 0).astype(np.float32)
    return torch.from_numpy(dense), [torch.from_numpy(i) for i in sparse], torch.from_numpy(click[:, None])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a small DLRM")
    parser.add_argument("--arch-sparse-feature-size", type=int, default=8)
    parser.add_argument("--arch-embedding-size", type=str, default="1000-500-2000-300-800-100")
    parser.add_argument("--arch-mlp-bot", type=int, default=64)
    parser.add_argument("--arch-mlp-top", type=str, default="64-32-1")
    parser.add_argument("--num-batches", type=int, default=100)
    parser.add_argument("--mini-batch-size", type=int, default=128)
    parser.add_argument("--num-indices-per-lookup", type=int, default=4)
    parser.add_argument("--nepochs", type=int, default=1)
    parser.add_argument("--print-freq", type=int, default=100)
    args = parser.parse_args()

    rng = np.random.default_rng(123)
    torch.manual_seed(123)
    ln_emb = [int(n) for n in args.arch_embedding_size.split("-")]
    m_spa, num_dense = args.arch_sparse_feature_size, 13
    secrets = [rng.standard_normal(n) for n in ln_emb]
    batches = [
        generate(rng, args.mini_batch_size, num_dense, ln_emb, args.num_indices_per_lookup, secrets)
        for _ in range(args.num_batches)
    ]
    dlrm = DLRM(m_spa, ln_emb, [num_dense, args.arch_mlp_bot, m_spa], [int(n) for n in args.arch_mlp_top.split("-")])
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adagrad(dlrm.parameters(), lr=0.02)
    for k in range(args.nepochs):
        total_loss = total_accu = 0.0
        for j, (dense, sparse, click) in enumerate(batches):
            Z = dlrm(dense, sparse)
            E = loss_fn(Z, click)
            optimizer.zero_grad()
            E.backward()
            optimizer.step()
            total_loss += E.item()
            total_accu += ((Z > 0) == (click > 0)).float().mean().item()
            if (j + 1) % args.print_freq == 0 or j + 1 == args.num_batches:
                print("epoch {} it {}/{} loss {:.5f} accuracy {:.3f}".format(
                    k, j + 1, args.num_batches, total_loss / (j + 1), total_accu / (j + 1)))
