# Model-agnostic meta-learning on sine waves, second order, plain tensors
# maml.py META_LR ITERATIONS TASKS SHOTS INNER_STEPS [HIDDEN]
import sys, math, torch

meta_lr = float(sys.argv[1])
iterations, tasks, shots, inner_steps = (int(v) for v in sys.argv[2:6])
hidden = int(sys.argv[6]) if len(sys.argv) > 6 else 40
inner_lr = 0.01
torch.manual_seed(20)

shapes = [(1, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 1), (1,)]
theta = [(torch.randn(s) * (1 / s[0]) ** .5 if len(s) == 2 else torch.zeros(s)).requires_grad_() for s in shapes]
m = [torch.zeros_like(t) for t in theta]
v = [torch.zeros_like(t) for t in theta]


def f(x, t):
    h = torch.relu(x @ t[0] + t[1])
    h = torch.relu(h @ t[2] + t[3])
    return h @ t[4] + t[5]


def draw():
    amplitude, phase = torch.rand(()) * 4.9 + 0.1, torch.rand(()) * math.pi
    x = torch.rand(2 * shots, 1) * 10 - 5
    y = amplitude * torch.sin(x - phase)
    return x[:shots], y[:shots], x[shots:], y[shots:]


for it in range(1, iterations + 1):
    outer = 0.
    for _ in range(tasks):
        xs, ys, xq, yq = draw()
        fast = theta
        for _ in range(inner_steps):
            loss = ((f(xs, fast) - ys) ** 2).mean()
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [w - inner_lr * g for w, g in zip(fast, grads)]
        outer = outer + ((f(xq, fast) - yq) ** 2).mean()
    outer = outer / tasks
    grads = torch.autograd.grad(outer, theta)
    with torch.no_grad():
        for w, g, a, b in zip(theta, grads, m, v):
            a.mul_(.9).add_(g, alpha=.1)
            b.mul_(.999).addcmul_(g, g, value=.001)
            w -= meta_lr * (a / (1 - .9 ** it)) / ((b / (1 - .999 ** it)).sqrt() + 1e-8)
    if it % 10 == 0:
        print('%d meta loss %.4f' % (it, outer.item()))
