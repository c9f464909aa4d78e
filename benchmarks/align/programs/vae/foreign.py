#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch
from torch.distributions import Normal, Bernoulli, kl_divergence

A, B, Z = 11025, 720, 48
device = "cuda"
enc = torch.nn.Linear(A, B, device=device)
stats = torch.nn.Linear(B, 2 * Z, device=device)
dec = torch.nn.ModuleList([torch.nn.Linear(Z, B, device=device), torch.nn.Linear(B, A, device=device)])
weights = torch.nn.ParameterList([*enc.parameters(), *stats.parameters(), *dec.parameters()])
prior = Normal(torch.zeros(Z, device=device), torch.ones(Z, device=device))


def posterior(x):
    loc, raw = stats(enc(x).relu()).tensor_split(2, -1)
    return Normal(loc, (raw / 2).exp())


def likelihood(z):
    return Bernoulli(logits=dec[1](dec[0](z).relu()), validate_args=False)


def negative_elbo(x):
    q = posterior(x)
    return kl_divergence(q, prior).sum() - likelihood(q.rsample()).log_prob(x).sum()


class Schedule:
    def __init__(self, total):
        self.left = total

    def __iter__(self):
        while self.left:
            self.left -= 1
            yield self.left


everything = torch.load("/scratch/nils/omniglot.pt").reshape(-1, A)
ada = torch.optim.Adamax(weights, lr=0.0007)
for remaining in Schedule(260):
    shuffled = everything[torch.randperm(everything.shape[0])]
    for x in shuffled.split(350):
        def closure():
            ada.zero_grad()
            bound = negative_elbo(x.to(device))
            bound.backward()
            return bound
        value = ada.step(closure)
    print(f"{remaining=} {value=}")
