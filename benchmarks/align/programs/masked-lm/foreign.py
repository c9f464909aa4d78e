#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch

class TransformerLearner:
    """fit() and score(), as in scikit-learn"""

    def __init__(self, n_symbols=33, n_units=320, n_blocks=5, n_heads=10, seq_len=448, corruption=0.2, max_iter=65, step_size=0.0004, chunk=44):
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})

    def _build(self):
        make = lambda: torch.nn.TransformerEncoderLayer(self.n_units, self.n_heads, 4 * self.n_units, batch_first=True)
        self.net_ = torch.nn.ModuleDict({
            "in": torch.nn.Embedding(self.n_symbols, self.n_units),
            "where": torch.nn.Embedding(self.seq_len, self.n_units),
            "blocks": torch.nn.Sequential(*(make() for _ in range(self.n_blocks))),
            "out": torch.nn.Linear(self.n_units, self.n_symbols),
        }).to("cuda")
        return torch.optim.AdamW(self.net_.parameters(), self.step_size)

    def _decision(self, s):
        ix = torch.arange(s.size(1), device=s.device)
        return self.net_["out"](self.net_["blocks"](self.net_["in"](s) + self.net_["where"](ix)))

    def fit(self, X, y=None):
        adam = self._build()
        self.curve_ = []
        for _ in range(self.max_iter):
            for lo in range(0, X.shape[0], self.chunk):
                s = X[lo : lo + self.chunk].to("cuda")
                gone = torch.empty_like(s, dtype=torch.float).bernoulli_(self.corruption).bool()
                cost = torch.nn.functional.cross_entropy(self._decision(torch.where(gone, 32, s))[gone], s[gone])
                cost.backward()
                adam.step(), adam.zero_grad()
            self.curve_.append(cost.item())
        return self

X_train = torch.load("/scratch/tao/proteins.pt")
print(TransformerLearner().fit(X_train).curve_)
