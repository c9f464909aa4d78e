"""Train a two-tower retrieval model on synthetic visits; recall at 50 among all items is the score."""
import argparse
import os

import torch

from .model import Tower, in_batch_softmax


def synthetic(users: int, items: int, visits: int, features: int):
    taste, kind = torch.randn(users, 6), torch.randn(items, 6)
    to_features = torch.randn(6, features)
    who = torch.randint(users, (visits,))
    what = torch.empty(visits, dtype=torch.long)
    for start in range(0, visits, 2000):
        affinity = 1.5 * taste[who[start : start + 2000]] @ kind.T
        what[start : start + 2000] = torch.multinomial(affinity.softmax(1), 1).squeeze(1)
    noisy = lambda x: x @ to_features + torch.randn(len(x), features)
    return who, what, noisy(taste), noisy(kind)


@torch.no_grad()
def recall(user_tower, item_tower, who, what, user_x, item_x, k=50):
    items = item_tower(torch.arange(len(item_x)), item_x)
    scores = user_tower(who, user_x[who]) @ items.T
    return (scores.topk(k, dim=1).indices == what[:, None]).any(1).float().mean().item()


parser = argparse.ArgumentParser(prog="towers.train")
parser.add_argument("--num_epochs", type=int, default=1)
parser.add_argument("--global_batch_size", type=int, default=256)
parser.add_argument("--visits", type=int, default=20_000)
parser.add_argument("--users", type=int, default=5000)
parser.add_argument("--items", type=int, default=2000)
parser.add_argument("--features", type=int, default=16)
parser.add_argument("--hidden", type=int, default=128)
flags = parser.parse_args()

torch.manual_seed(0)
dim, temperature = int(os.environ["TOWER_DIM"]), float(os.environ["TOWER_TEMPERATURE"])
who, what, user_x, item_x = synthetic(flags.users, flags.items, flags.visits + 1000, flags.features)
user_tower = Tower(flags.users, flags.features, flags.hidden, dim)
item_tower = Tower(flags.items, flags.features, flags.hidden, dim)
optimizer = torch.optim.Adam([*user_tower.parameters(), *item_tower.parameters()], lr=1e-3)
for epoch in range(flags.num_epochs):
    for rows in torch.randperm(flags.visits).split(flags.global_batch_size):
        u, i = who[rows], what[rows]
        loss = in_batch_softmax(user_tower(u, user_x[u]), item_tower(i, item_x[i]), temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    score = recall(user_tower, item_tower, who[-1000:], what[-1000:], user_x, item_x)
    print(f"epoch={epoch} loss={loss.item():.4f} recall@50={score:.4f}")
