import numpy as np


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


class GRU:
    """One layer; a linear read-out of the last state."""

    def __init__(self, rng, n_in, n_hid, n_out):
        def w(rows, cols):
            return rng.randn(rows, cols) / np.sqrt(rows)
        self.n_hid = n_hid
        self.params = {
            'Wzr': w(n_in, 2 * n_hid), 'Uzr': w(n_hid, 2 * n_hid), 'bzr': np.zeros(2 * n_hid),
            'Wh': w(n_in, n_hid), 'Uh': w(n_hid, n_hid), 'bh': np.zeros(n_hid),
            'Wo': w(n_hid, n_out), 'bo': np.zeros(n_out),
        }

    def forward(self, x):
        P, n = self.params, self.n_hid
        h = np.zeros((x.shape[1], n))
        tape = []
        for xt in x:
            zr = sigmoid(xt @ P['Wzr'] + h @ P['Uzr'] + P['bzr'])
            z, r = zr[:, :n], zr[:, n:]
            c = np.tanh(xt @ P['Wh'] + (r * h) @ P['Uh'] + P['bh'])
            new = (1 - z) * h + z * c
            tape.append((xt, h, z, r, c))
            h = new
        return h @ P['Wo'] + P['bo'], (tape, h)

    def backward(self, dout, saved):
        P = self.params
        tape, last = saved
        G = {k: np.zeros_like(v) for k, v in P.items()}
        G['Wo'] = last.T @ dout
        G['bo'] = dout.sum(0)
        dh = dout @ P['Wo'].T
        for xt, h, z, r, c in reversed(tape):
            dc = dh * z * (1 - c * c)
            dz = dh * (c - h) * z * (1 - z)
            drh = dc @ P['Uh'].T
            dr = drh * h * r * (1 - r)
            dzr = np.hstack([dz, dr])
            G['Wh'] += xt.T @ dc
            G['Uh'] += (r * h).T @ dc
            G['bh'] += dc.sum(0)
            G['Wzr'] += xt.T @ dzr
            G['Uzr'] += h.T @ dzr
            G['bzr'] += dzr.sum(0)
            dh = dh * (1 - z) + drh * r + dzr @ P['Uzr'].T
        return G


class Adam:
    def __init__(self, params, lr, b1=0.9, b2=0.999):
        self.params, self.lr, self.b1, self.b2, self.t = params, lr, b1, b2, 0
        self.m = {k: np.zeros_like(v) for k, v in params.items()}
        self.v = {k: np.zeros_like(v) for k, v in params.items()}

    def step(self, grads):
        self.t += 1
        for k, g in grads.items():
            self.m[k] = self.b1 * self.m[k] + (1 - self.b1) * g
            self.v[k] = self.b2 * self.v[k] + (1 - self.b2) * g * g
            m = self.m[k] / (1 - self.b1 ** self.t)
            v = self.v[k] / (1 - self.b2 ** self.t)
            self.params[k] -= self.lr * m / (np.sqrt(v) + 1e-8)
