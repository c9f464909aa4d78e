# An ensemble of regression networks on bootstrap samples of Friedman's function, trained one after the other.
import argparse, math, torch

parser = argparse.ArgumentParser()
parser.add_argument("members", type=int)
parser.add_argument("epochs", type=int)
parser.add_argument("--rows", type=int, default=2000)
parser.add_argument("--batch", type=int, default=50)
parser.add_argument("--units", type=int, default=64)
parser.add_argument("--columns", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(1991)
X = torch.rand(args.rows + 500, args.columns)
Y = 10 * torch.sin(math.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - .5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
Y = (Y + torch.randn(len(Y)) - 14) / 5
train, test = slice(0, args.rows), slice(args.rows, None)

predictions = []
for member in range(args.members):
    net = torch.nn.Sequential(torch.nn.Linear(args.columns, args.units), torch.nn.SiLU(),
                              torch.nn.Linear(args.units, args.units), torch.nn.SiLU(), torch.nn.Linear(args.units, 1))
    bag = torch.randint(args.rows, (args.rows,))
    x, y = X[train][bag], Y[train][bag]
    params = list(net.parameters())
    avg = [torch.zeros_like(p) for p in params]
    for epoch in range(args.epochs):
        rate = 0.05 * (1 - epoch / args.epochs)
        for start in range(0, args.rows, args.batch):
            loss = (net(x[start:start + args.batch]).squeeze(1) - y[start:start + args.batch]).square().mean()
            for p, a, g in zip(params, avg, torch.autograd.grad(loss, params)):
                a.mul_(0.8).add_(g, alpha=0.2)
                p.data.sub_(a, alpha=rate)
    with torch.no_grad():
        predictions.append(net(X[test]).squeeze(1))
    mse = (torch.stack(predictions).mean(0) - Y[test]).square().mean().item()
    print(f"member {member + 1}/{args.members}: last loss {loss.item():.4f}, ensemble's test mse {mse:.4f}")
