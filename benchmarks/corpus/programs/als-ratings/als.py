import json
import sys
from pathlib import Path

import numpy as np


def read_config(path, overrides):
    config = json.loads(Path(path).read_text())
    for override in overrides:
        name, _, value = override.partition("=")
        if name not in config:
            sys.exit(f"no such setting: {name}")
        config[name] = type(config[name])(value)
    return config


def ratings(cfg, rng):
    """(user, item, value) triples from a low-rank truth with noise."""
    u_true = rng.normal(size=(cfg["users"], 8))
    v_true = rng.normal(size=(cfg["items"], 8))
    per_user = cfg["ratings_per_user"]
    user = np.repeat(np.arange(cfg["users"]), per_user)
    item = np.concatenate([rng.choice(cfg["items"], per_user, replace=False) for _ in range(cfg["users"])])
    value = (u_true[user] * v_true[item]).sum(1) / np.sqrt(8) + 0.2 * rng.normal(size=len(user))
    return user, item, value


def group(keys, n):
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.cumsum(np.bincount(keys, minlength=n))[:-1])


def solve_side(fixed, other, value, rows_of, ridge):
    """One ridge regression for every row of this side while the other side is held."""
    rank = fixed.shape[1]
    out = np.zeros((len(rows_of), rank))
    eye = ridge * np.eye(rank)
    for i, rows in enumerate(rows_of):
        if len(rows):
            f = fixed[other[rows]]
            out[i] = np.linalg.solve(f.T @ f + len(rows) * eye, f.T @ value[rows])
    return out


cfg = read_config(sys.argv[1], sys.argv[2:])
rng = np.random.default_rng(cfg["seed"])
user, item, value = ratings(cfg, rng)
held = rng.random(len(user)) < 0.1
test = user[held], item[held], value[held]
user, item, value = user[~held], item[~held], value[~held]
by_user, by_item = group(user, cfg["users"]), group(item, cfg["items"])

V = rng.normal(size=(cfg["items"], cfg["rank"])) / np.sqrt(cfg["rank"])
for sweep in range(cfg["sweeps"]):
    U = solve_side(V, item, value, by_user, cfg["ridge"])
    V = solve_side(U, user, value, by_item, cfg["ridge"])
    rmse = np.sqrt(np.mean(((U[test[0]] * V[test[1]]).sum(1) - test[2]) ** 2))
    print(f"sweep {sweep + 1}: held-out rmse {rmse:.4f}")
