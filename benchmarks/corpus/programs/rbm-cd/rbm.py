# Restricted Boltzmann machine on bars and stripes, trained by contrastive divergence (CD-k).
import getopt
import sys

import numpy

SIDE = 14          # pixels a side
HIDDEN = 100
EPOCHS = 5
BATCH = 50
CD_STEPS = 1
IMAGES = 5000
LEARNING_RATE = 0.05

options, _ = getopt.getopt(sys.argv[1:], "e:h:k:b:n:s:")
for flag, text in options:
    if flag == "-e": EPOCHS = int(text)
    if flag == "-h": HIDDEN = int(text)
    if flag == "-k": CD_STEPS = int(text)
    if flag == "-b": BATCH = int(text)
    if flag == "-n": IMAGES = int(text)
    if flag == "-s": SIDE = int(text)

rng = numpy.random.default_rng(42)


def bars_and_stripes(n):
    lines = rng.random((n, SIDE)) < 0.4
    images = numpy.repeat(lines[:, :, None], SIDE, axis=2)
    flip = rng.random(n) < 0.5
    images[flip] = images[flip].transpose(0, 2, 1)
    return images.reshape(n, SIDE * SIDE).astype(float)


def sigma(x):
    return 1.0 / (1.0 + numpy.exp(-x))


def draw(p):
    return (rng.random(p.shape) < p).astype(float)


v_all = bars_and_stripes(IMAGES)
visible = SIDE * SIDE
W = 0.05 * rng.standard_normal((visible, HIDDEN))
a = numpy.zeros(visible)
b = numpy.zeros(HIDDEN)

for epoch in range(EPOCHS):
    rng.shuffle(v_all)
    error = 0.0
    for i in range(0, IMAGES, BATCH):
        v0 = v_all[i:i + BATCH]
        h0 = sigma(v0 @ W + b)
        h = h0
        for k in range(CD_STEPS):
            v = draw(sigma(draw(h) @ W.T + a))
            h = sigma(v @ W + b)
        W += LEARNING_RATE / len(v0) * (v0.T @ h0 - v.T @ h)
        a += LEARNING_RATE * (v0 - v).mean(0)
        b += LEARNING_RATE * (h0 - h).mean(0)
        error += numpy.abs(v0 - v).sum()
    print("epoch %2d   pixels wrong %.4f" % (epoch, error / IMAGES / visible))
