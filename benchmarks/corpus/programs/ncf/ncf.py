"""Neural collaborative filtering (NeuMF: a product of embeddings and an MLP, joined), implicit feedback, hit rate at 10."""
import argparse

import numpy as np
import torch
import torch.nn as nn


def str_to_layers(text):
    return [int(n) for n in text.split(",")]


def parse_args():
    p = argparse.ArgumentParser(description="Train NeuMF")
    p.add_argument("-e", "--epochs", type=int, default=1)
    p.add_argument("-b", "--batch-size", type=int, default=512)
    p.add_argument("-f", "--factors", type=int, default=8)
    p.add_argument("--layers", type=str_to_layers, default=[64, 32, 16, 8])
    p.add_argument("-n", "--negatives", type=int, default=1)
    p.add_argument("-u", "--users", type=int, default=800)
    p.add_argument("-i", "--items", type=int, default=600)
    p.add_argument("--seed", type=int)
    p.add_argument("-l", "--learning-rate", type=float, default=0.003)
    return p.parse_args()


class NeuMF(nn.Module):
    def __init__(self, n_users, n_items, factors, layers):
        super().__init__()
        self.mf_user, self.mf_item = nn.Embedding(n_users, factors), nn.Embedding(n_items, factors)
        self.mlp_user, self.mlp_item = nn.Embedding(n_users, layers[0] // 2), nn.Embedding(n_items, layers[0] // 2)
        mlp = []
        for a, b in zip(layers, layers[1:]):
            mlp += [nn.Linear(a, b), nn.ReLU()]
        self.mlp = nn.Sequential(*mlp)
        self.final = nn.Linear(factors + layers[-1], 1)
        for e in (self.mf_user, self.mf_item, self.mlp_user, self.mlp_item):
            nn.init.normal_(e.weight, std=0.05)

    def forward(self, user, item):
        product = self.mf_user(user) * self.mf_item(item)
        hidden = self.mlp(torch.cat([self.mlp_user(user), self.mlp_item(item)], -1))
        return self.final(torch.cat([product, hidden], -1)).squeeze(-1)


def interactions(n_users, n_items, rng, per_user=25):
    """Users like items that are near to them on a ring; the last one of each user is the test item."""
    taste = rng.random(n_users)
    place = rng.random(n_items)
    distance = np.abs(taste[:, None] - place)
    distance = np.minimum(distance, 1 - distance)
    score = -distance * 30 + rng.gumbel(size=distance.shape)
    return np.argsort(-score, axis=1)[:, :per_user]


def hit_rate(model, test, n_items, rng):
    candidates = np.concatenate([test[:, None], rng.integers(n_items, size=(len(test), 99))], axis=1)
    users = np.repeat(np.arange(len(test)), 100)
    with torch.no_grad():
        scores = model(torch.from_numpy(users), torch.from_numpy(candidates.ravel())).view(-1, 100)
    return ((scores[:, 1:] > scores[:, :1]).sum(1) < 10).float().mean().item()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    liked = interactions(args.users, args.items, rng)
    order = rng.permuted(liked, axis=1)
    test, train = order[:, 0], order[:, 1:]
    pos_user, pos_item = np.repeat(np.arange(args.users), train.shape[1]), train.ravel()
    model = NeuMF(args.users, args.items, args.factors, args.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        # new negatives each epoch
        user = np.tile(pos_user, 1 + args.negatives)
        item = np.concatenate([pos_item, rng.integers(args.items, size=args.negatives * len(pos_item))])
        label = np.zeros(len(user), np.float32)
        label[: len(pos_item)] = 1
        mix = rng.permutation(len(user))
        user, item, label = (torch.from_numpy(a[mix]) for a in (user, item, label))
        for start in range(0, len(mix), args.batch_size):
            part = slice(start, start + args.batch_size)
            loss = criterion(model(user[part], item[part]), label[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, HR@10 {hit_rate(model, test, args.items, rng):.4f}")


if __name__ == "__main__":
    main()
