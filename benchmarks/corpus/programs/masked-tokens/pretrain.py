"""Masked language modelling with a small bidirectional encoder on sequences from a Markov chain."""
from __future__ import annotations

import argparse
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int = 200


MODELS = {"micro": Config(32, 1, 2), "mini": Config(64, 2, 4), "small": Config(96, 3, 4)}


class Corpus:
    """An endless text: the next token is drawn from the eight that may follow the last one."""

    def __init__(self, vocab: int) -> None:
        self.follow = torch.randint(1, vocab, (vocab, 8))

    def batch(self, size: int, length: int) -> torch.Tensor:
        tokens = torch.empty(size, length, dtype=torch.long)
        tokens[:, 0] = torch.randint(1, len(self.follow), (size,))
        for k in range(1, length):
            tokens[:, k] = self.follow[tokens[:, k - 1], torch.randint(8, (size,))]
        return tokens


class Encoder(nn.Module):
    def __init__(self, config: Config, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.places = nn.Parameter(torch.randn(length, config.hidden_size) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(config.hidden_size, config.num_attention_heads, 4 * config.hidden_size,
                                       dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(config.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.tokens.weight.T


def adamw(params, moments, step, lr, decay=0.01):
    with torch.no_grad():
        for p, (m, v) in zip(params, moments):
            p.mul_(1 - lr * decay)
            m.lerp_(p.grad, 0.1)
            v.lerp_(p.grad.square(), 0.02)
            p.addcdiv_(m / (1 - 0.9 ** step), (v / (1 - 0.98 ** step)).sqrt() + 1e-6, value=-lr)
            p.grad = None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="mini")
    parser.add_argument("--max_train_steps", type=int, default=80)
    parser.add_argument("--per_device_train_batch_size", type=int, default=16)
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("--mlm_probability", type=float, default=0.15)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(4)
    config = MODELS[args.model]
    corpus = Corpus(config.vocab_size)
    model = Encoder(config, args.max_seq_length)
    params = list(model.parameters())
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]
    print(f"{args.model}: {sum(p.numel() for p in params)} parameters")
    for step in range(1, args.max_train_steps + 1):
        tokens = corpus.batch(args.per_device_train_batch_size, args.max_seq_length)
        masked = torch.rand(tokens.shape) < args.mlm_probability
        logits = model(tokens.masked_fill(masked, 0))
        loss = nn.functional.cross_entropy(logits[masked], tokens[masked])
        loss.backward()
        adamw(params, moments, step, args.learning_rate * min(1.0, step / 20))
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
