import torch
import argparse

# semi-supervised node classification on a stochastic block model, dense adjacency

cli = argparse.ArgumentParser()
cli.add_argument("nodes", type=int)
cli.add_argument("epochs", type=int)
cli.add_argument("--hidden", type=int, default=64)
cli.add_argument("--layers", type=int, default=2)
cli.add_argument("--features", type=int, default=64)
cli.add_argument("--dropout", type=float, default=0.3)
a = cli.parse_args()

torch.manual_seed(8)
COMMUNITIES, P_IN, P_OUT = 5, 0.03, 0.008
community = torch.randint(COMMUNITIES, (a.nodes,))
prob = torch.where(community[:, None] == community[None], P_IN, P_OUT)
upper = torch.triu(torch.rand(a.nodes, a.nodes) < prob, 1).float()
adjacency = upper + upper.T + torch.eye(a.nodes)
d = adjacency.sum(1).rsqrt()
adjacency = d[:, None] * adjacency * d[None]
features = torch.randn(COMMUNITIES, a.features)[community] * 0.4 + torch.randn(a.nodes, a.features)
labelled = torch.rand(a.nodes) < 0.1

sizes = [a.features] + [a.hidden] * (a.layers - 1) + [COMMUNITIES]
W = [(torch.randn(i, o) * (2 / (i + o)) ** 0.5).requires_grad_() for i, o in zip(sizes, sizes[1:])]
M = [torch.zeros_like(w) for w in W]
V = [torch.zeros_like(w) for w in W]

def forward(x, training):
    for n, w in enumerate(W):
        if training:
            x = torch.nn.functional.dropout(x, a.dropout)
        x = adjacency @ (x @ w)
        if n < len(W) - 1:
            x = torch.relu(x)
    return x

for epoch in range(1, a.epochs + 1):
    out = forward(features, True)
    loss = torch.nn.functional.cross_entropy(out[labelled], community[labelled])
    for w in W:
        w.grad = None
    loss.backward()
    with torch.no_grad():
        for w, m, v in zip(W, M, V):
            m.mul_(0.9).add_(w.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
            w -= 0.01 * (m / (1 - 0.9 ** epoch)) / ((v / (1 - 0.999 ** epoch)).sqrt() + 1e-8)
    if epoch % 10 == 0 or epoch == a.epochs:
        with torch.no_grad():
            acc = (forward(features, False).argmax(1) == community)[~labelled].float().mean()
        print(f"epoch {epoch:4d} loss {loss:.4f} accuracy of the others {acc:.3f}")
