"""Encoder-decoder with additive attention. The task: a string of digits to its sorted form without repeats."""
import argparse
import random

import torch
import torch.nn.functional as F

from model import Seq2Seq

PAD, BOS, EOS, FIRST = 0, 1, 2, 3


def make_pair(rng, max_length, alphabet):
    source = [rng.randrange(alphabet) + FIRST for _ in range(rng.randint(max_length // 2, max_length))]
    return source, sorted(set(source))


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([r + [PAD] * (longest - len(r)) for r in rows])


def batches(pairs, size):
    for i in range(0, len(pairs), size):
        part = pairs[i:i + size]
        yield pad([s for s, _ in part]), pad([[BOS] + t + [EOS] for _, t in part])


@torch.no_grad()
def accuracy(model, pairs, size):
    right = count = 0
    for src, tgt in batches(pairs, size):
        guess = model(src, src != PAD, tgt[:, :-1]).argmax(-1)
        mask = tgt[:, 1:] != PAD
        right += ((guess == tgt[:, 1:]) & mask).sum().item()
        count += mask.sum().item()
    return right / count


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--pairs", type=int, default=1500)
    ap.add_argument("--batch", type=int, default=50)
    ap.add_argument("--max_len", type=int, default=16)
    ap.add_argument("--alphabet", type=int, default=12)
    ap.add_argument("--hidden_dim", type=int, default=64)
    ap.add_argument("--optimizer", choices=["adam", "sgd"], default="sgd")
    opt = ap.parse_args()

    rng = random.Random(123)
    torch.manual_seed(123)
    pairs = [make_pair(rng, opt.max_len, opt.alphabet) for _ in range(opt.pairs)]
    heldout = [make_pair(rng, opt.max_len, opt.alphabet) for _ in range(100)]
    model = Seq2Seq(opt.alphabet + FIRST, opt.hidden_dim)
    optimizer = {"adam": lambda p: torch.optim.Adam(p, 3e-3), "sgd": lambda p: torch.optim.SGD(p, 0.5)}[opt.optimizer](
        model.parameters())
    for epoch in range(opt.epochs):
        rng.shuffle(pairs)
        losses = []
        for src, tgt in batches(pairs, opt.batch):
            logits = model(src, src != PAD, tgt[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        print("epoch", epoch, "loss", sum(losses) / len(losses), "token accuracy", accuracy(model, heldout, opt.batch))
