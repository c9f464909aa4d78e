"""Masked-language-model pre-training of a small BERT on a synthetic language with agreement over a distance."""
import argparse
import os
import tomllib
from pathlib import Path

import torch
from torch import nn

MASK, SPECIAL = 0, 5


class Bert(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["hidden_size"]
        self.word = nn.Embedding(cfg["vocab_size"], d)
        self.place = nn.Embedding(cfg["max_position_embeddings"], d)
        self.norm = nn.LayerNorm(d)
        block = nn.TransformerEncoderLayer(
            d, cfg["num_attention_heads"], cfg["intermediate_size"], dropout=0.1, activation="gelu", batch_first=True
        )
        self.blocks = nn.TransformerEncoder(block, cfg["num_hidden_layers"], enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(cfg["vocab_size"]))
        for table in (self.word, self.place):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, ids):
        x = self.norm(self.word(ids) + self.place.weight[: ids.shape[1]])
        return self.blocks(x) @ self.word.weight.T + self.bias  # tied


def sentences(count, length, vocab, generator):
    """The second half repeats the first, each word replaced by its partner: hidden words can be looked up."""
    half = torch.randint(SPECIAL, vocab, (count, length // 2), generator=generator)
    return torch.cat([half, vocab + SPECIAL - 1 - half], dim=1)


def mask(ids, probability, generator):
    chosen = torch.rand(ids.shape, generator=generator) < probability
    return ids.masked_fill(chosen, MASK), chosen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", type=Path, required=True)
    p.add_argument("--max-steps", type=int, default=20)
    p.add_argument("--train-batch-size", type=int, default=16)
    p.add_argument("--max-seq-length", type=int, default=64)
    p.add_argument("--hidden-size", type=int)
    p.add_argument("--num-hidden-layers", type=int)
    p.add_argument("--learning-rate", type=float, default=2e-3)
    args = p.parse_args()
    cfg = tomllib.loads(args.model.read_text())
    for name in ("hidden_size", "num_hidden_layers"):
        if getattr(args, name):
            cfg[name] = getattr(args, name)
    cfg["intermediate_size"] = 4 * cfg["hidden_size"]
    probability = float(os.environ.get("MASK_PROB", "0.15"))

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Bert(cfg)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 10))
    for step in range(1, args.max_steps + 1):
        ids = sentences(args.train_batch_size, args.max_seq_length, cfg["vocab_size"], generator)
        masked, chosen = mask(ids, probability, generator)
        loss = nn.functional.cross_entropy(model(masked)[chosen], ids[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        warmup.step()
        if step % 10 == 0 or step == args.max_steps:
            print(f"step {step}/{args.max_steps} mlm loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
