# Softmax regression on blurred glyphs, mini-batch gradient descent with decaying steps.
# usage: softmax.py PASSES PER_CLASS BATCH SIDE
import sys
import numpy as np

N_CLASSES = 26
RATE = 0.5
DECAY = 0.97
L2 = 1e-5

passes = int(sys.argv[1])
per_class = int(sys.argv[2])
batch = int(sys.argv[3])
side = int(sys.argv[4])

np.random.seed(11)

# one prototype a class, then every image is the prototype, shifted and with noise on it
prototypes = np.random.rand(N_CLASSES, side, side) > 0.6
images, labels = [], []
for c in range(N_CLASSES):
    for i in range(per_class):
        dx, dy = np.random.randint(-1, 2, size=2)
        img = np.roll(prototypes[c], (dy, dx), axis=(0, 1)) + 0.4 * np.random.randn(side, side)
        images.append(img.ravel())
        labels.append(c)
X = np.array(images, dtype=np.float32)
X = np.hstack([X, np.ones((len(X), 1), dtype=np.float32)])
Y = np.array(labels)
mix = np.random.permutation(len(X))
X, Y = X[mix], Y[mix]
n_test = len(X) // 10
Xtest, Ytest, X, Y = X[:n_test], Y[:n_test], X[n_test:], Y[n_test:]

W = np.zeros((X.shape[1], N_CLASSES), dtype=np.float32)
onehot = np.eye(N_CLASSES, dtype=np.float32)
for p in range(passes):
    loss = 0
    for s in range(0, len(X), batch):
        xb, yb = X[s : s + batch], Y[s : s + batch]
        z = xb @ W
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        prob = e / e.sum(axis=1, keepdims=True)
        loss -= np.log(prob[np.arange(len(yb)), yb] + 1e-9).sum()
        g = xb.T @ (prob - onehot[yb]) / len(yb)
        W -= RATE / side * (g + L2 * W)
    RATE *= DECAY
    acc = (np.argmax(Xtest @ W, axis=1) == Ytest).mean()
    print("pass", p, "loss %.4f" % (loss / len(X)), "test acc %.3f" % acc)
