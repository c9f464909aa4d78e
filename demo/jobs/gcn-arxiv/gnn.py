"""Graph convolution on ogbn-arxiv, repeated runs."""
import argparse

import torch
import torch.nn.functional as F
from ogb.nodeproppred import Evaluator, PygNodePropPredDataset
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import ToSparseTensor


class GCN(torch.nn.Module):
    def __init__(self, i, h, o, layers):
        super().__init__()
        sizes = [i] + [h] * (layers - 1) + [o]
        self.convs = torch.nn.ModuleList(GCNConv(a, b, cached=True) for a, b in zip(sizes, sizes[1:]))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(h) for _ in range(layers - 1))

    def forward(self, x, adj):
        for conv, norm in zip(self.convs, self.norms):
            x = F.dropout(F.relu(norm(conv(x, adj))), 0.5, self.training)
        return self.convs[-1](x, adj).log_softmax(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--num_layers", type=int, default=3)
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--runs", type=int, default=5)
    args = ap.parse_args()
    ds = PygNodePropPredDataset("ogbn-arxiv", transform=ToSparseTensor())
    split, data, ev = ds.get_idx_split(), ds[0].to("cuda"), Evaluator("ogbn-arxiv")
    data.adj_t = data.adj_t.to_symmetric()
    for run in range(args.runs):
        net = GCN(data.num_features, args.hidden, ds.num_classes, args.num_layers).cuda()
        opt = torch.optim.Adam(net.parameters(), 0.01)
        for epoch in range(args.epochs):
            out = net(data.x, data.adj_t)[split["train"]]
            loss = F.nll_loss(out, data.y.squeeze(1)[split["train"]])
            opt.zero_grad(); loss.backward(); opt.step()
        print(run, ev.eval({"y_true": data.y, "y_pred": net(data.x, data.adj_t).argmax(-1, keepdim=True)}))


main()
