"""word2vec: skip-gram with negative sampling, mini-batches in numpy. Options are given as name=value."""

import sys

import numpy as np

import text

opt = dict(corpus="markov", tokens=40_000, vocab=2000, dim=64, window=3, negatives=5, epochs=1, batch=256, lr=0.05)
for word in sys.argv[1:]:
    key, value = word.split("=")
    opt[key] = type(opt[key])(value)

rng = np.random.default_rng(99)
tokens, topic_of = getattr(text, opt["corpus"])(rng, opt["tokens"], opt["vocab"])

# pairs of a word and one in its window
centers, contexts = [], []
for off in range(1, opt["window"] + 1):
    centers += [tokens[:-off], tokens[off:]]
    contexts += [tokens[off:], tokens[:-off]]
centers, contexts = np.concatenate(centers), np.concatenate(contexts)
noise = text.zipf(opt["vocab"]) ** 0.75
noise /= noise.sum()

V = (rng.random((opt["vocab"], opt["dim"]), dtype=np.float32) - 0.5) / opt["dim"]
U = np.zeros_like(V)
sigmoid = lambda z: 1 / (1 + np.exp(-z))

for epoch in range(opt["epochs"]):
    order = rng.permutation(len(centers))
    running = 0.0
    for s in range(0, len(order), opt["batch"]):
        pick = order[s : s + opt["batch"]]
        c = centers[pick]
        targets = np.concatenate(
            [contexts[pick, None], rng.choice(opt["vocab"], size=(len(pick), opt["negatives"]), p=noise)], axis=1
        )
        v, u = V[c], U[targets]  # (B, D), (B, 1+K, D)
        score = sigmoid(np.einsum("bd,bkd->bk", v, u))
        running -= np.log(score[:, 0] + 1e-7).sum() + np.log(1 - score[:, 1:] + 1e-7).sum()
        score[:, 0] -= 1
        dv = np.einsum("bk,bkd->bd", score, u)
        du = score[:, :, None] * v[:, None, :]
        np.add.at(V, c, (-opt["lr"] * dv).astype(np.float32))
        np.add.at(U, targets.ravel(), (-opt["lr"] * du).reshape(-1, opt["dim"]).astype(np.float32))
    print("epoch", epoch, "loss per pair", round(running / len(order), 4))

# how often the nearest neighbour of a frequent word has the word's topic
unit = V[:200] / np.linalg.norm(V[:200], axis=1, keepdims=True)
near = unit @ unit.T
np.fill_diagonal(near, -2)
print("same topic:", np.mean(topic_of[near.argmax(1)] == topic_of[:200]))
