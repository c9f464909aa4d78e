"""GRU with backpropagation through time, by hand, on the adding problem: two numbers of a sequence are marked, their
sum is asked for (Hochreiter and Schmidhuber 1997)."""
import argparse
import numpy as np
from gru import GRU, Adam

p = argparse.ArgumentParser()
p.add_argument('--iters', type=int, default=200)
p.add_argument('--seq_len', type=int, default=40)
p.add_argument('--hidden', type=int, default=64)
p.add_argument('--batch', type=int, default=64)
p.add_argument('--log_every', type=int, default=50)
p.add_argument('--clip', type=float, default=5.0)
a = p.parse_args()

rng = np.random.RandomState(3)


def adding_batch():
    x = np.zeros((a.seq_len, a.batch, 2))
    x[:, :, 0] = rng.rand(a.seq_len, a.batch)
    half = a.seq_len // 2
    first = rng.randint(0, half, a.batch)
    second = rng.randint(half, a.seq_len, a.batch)
    cols = np.arange(a.batch)
    x[first, cols, 1] = 1
    x[second, cols, 1] = 1
    return x, (x[first, cols, 0] + x[second, cols, 0])[:, None]


net = GRU(rng, 2, a.hidden, 1)
opt = Adam(net.params, lr=2e-3)
seen = []
for it in range(1, a.iters + 1):
    x, y = adding_batch()
    out, tape = net.forward(x)
    err = out - y
    seen.append(float((err ** 2).mean()))
    grads = net.backward(2 * err / a.batch, tape)
    norm = np.sqrt(sum((g ** 2).sum() for g in grads.values()))
    if norm > a.clip:
        for g in grads.values():
            g *= a.clip / norm
    opt.step(grads)
    if it % a.log_every == 0 or it == a.iters:
        print(f'iter {it:5d}  mse {np.mean(seen[-a.log_every:]):.5f}')
