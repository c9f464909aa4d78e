"""Pre-train a small GPT on OpenWebText. Overrides: key=value."""
import ast
import sys
from contextlib import nullcontext
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch.nn import functional as F


@dataclass
class Config:
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    block_size: int = 1024
    batch_size: int = 12
    gradient_accumulation_steps: int = 20
    max_iters: int = 600
    learning_rate: float = 6e-4
    compile: bool = False


cfg = Config()
for word in sys.argv[1:]:
    key, value = word.split("=")
    assert key in {f.name for f in fields(Config)}, f"unknown option {key}"
    setattr(cfg, key, ast.literal_eval(value))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        d = cfg.n_embd
        self.ln1, self.ln2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.qkv, self.proj = torch.nn.Linear(d, 3 * d, bias=False), torch.nn.Linear(d, d, bias=False)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(d, 4 * d), torch.nn.GELU(), torch.nn.Linear(4 * d, d))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, cfg.n_head, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(torch.nn.Module):
    def __init__(self, vocab=50304):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, cfg.n_embd)
        self.wpe = torch.nn.Embedding(cfg.block_size, cfg.n_embd)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(cfg.n_layer))
        self.head = torch.nn.Linear(cfg.n_embd, vocab, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for b in self.blocks:
            x = b(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


data = np.memmap("/datasets/owt/train.bin", dtype=np.uint16, mode="r")


def batch():
    ix = torch.randint(len(data) - cfg.block_size, (cfg.batch_size,))
    x = torch.stack([torch.from_numpy(data[i:i + cfg.block_size + 1].astype(np.int64)) for i in ix]).cuda()
    return x[:, :-1], x[:, 1:]


torch.distributed.init_process_group("nccl")
model = GPT().cuda()
model = torch.compile(model) if cfg.compile else model
opt = torch.optim.AdamW(model.parameters(), cfg.learning_rate, betas=(0.9, 0.95), fused=True)
for it in range(cfg.max_iters):
    for micro in range(cfg.gradient_accumulation_steps):
        with torch.autocast("cuda", torch.bfloat16) if True else nullcontext():
            loss = model(*batch()) / cfg.gradient_accumulation_steps
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step(); opt.zero_grad(set_to_none=True)
    if it % 10 == 0:
        print(it, loss.item() * cfg.gradient_accumulation_steps, flush=True)
