"""Encoder-decoder transformer that learns to sort and reverse sequences of symbols."""
import argparse
import math

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, vocab, d_model, layers, max_len):
        super().__init__()
        self.embed = nn.Embedding(vocab + 1, d_model)
        position = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("position", torch.cat([position.sin(), position.cos()], 1))
        self.scale = math.sqrt(d_model)
        self.core = nn.Transformer(d_model, 4, layers, layers, 2 * d_model, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d_model, vocab)

    def forward(self, src, tgt):
        def embed(tokens):
            return self.embed(tokens) * self.scale + self.position[: tokens.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        return self.out(self.core(embed(src), embed(tgt), tgt_mask=mask, tgt_is_causal=True))


def batch_of(size, length, vocab):
    src = torch.randint(vocab, (size, length))
    target = src.sort(1).values.flip(1)
    start = torch.full((size, 1), vocab)
    return src, torch.cat([start, target[:, :-1]], 1), target


def main(args):
    torch.manual_seed(args.seed)
    model = Model(args.vocab_size, args.d_model, args.num_layers, args.seq_length)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    criterion = nn.CrossEntropyLoss()
    for step in range(1, args.max_steps + 1):
        src, tgt_in, target = batch_of(args.train_batch_size, args.seq_length, args.vocab_size)
        logits = model(src, tgt_in)
        loss = criterion(logits.transpose(1, 2), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == args.max_steps:
            accuracy = (logits.argmax(-1) == target).float().mean()
            print(f"step {step}/{args.max_steps} loss {loss.item():.4f} token accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-steps", type=int, default=100)
    parser.add_argument("--train-batch-size", type=int, default=32)
    parser.add_argument("--seq-length", type=int, default=16)
    parser.add_argument("--vocab-size", type=int, default=20)
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--num-layers", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=9)
    main(parser.parse_args())
