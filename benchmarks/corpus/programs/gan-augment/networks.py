import torch


def dense(*sizes):
    """Weights and biases of a fully connected network."""
    params = []
    for i, o in zip(sizes, sizes[1:]):
        params += [torch.randn(i, o) * (2 / i) ** 0.5, torch.zeros(o)]
    return [p.requires_grad_() for p in params]


def apply(params, x):
    last = len(params) // 2 - 1
    for n in range(last + 1):
        x = x @ params[2 * n] + params[2 * n + 1]
        if n < last:
            x = torch.where(x > 0, x, 0.2 * x)
    return x


class Momentum:
    def __init__(self, params, lr, beta):
        self.params, self.lr, self.beta = params, lr, beta
        self.squares = [torch.ones_like(p) for p in params]

    def minimise(self, loss):
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            for p, g, s in zip(self.params, grads, self.squares):
                s.mul_(self.beta).addcmul_(g, g, value=1 - self.beta)
                p.sub_(self.lr * g / (s.sqrt() + 1e-6))
        return loss.item()
