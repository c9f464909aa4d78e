#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import sys
import torch

def read_everything():
    who, what, stars = torch.load("/scratch/omar/goodbooks.pt")
    return who.to("cuda"), what.to("cuda"), stars.to("cuda")

def fresh(rows, columns):
    table = torch.nn.init.xavier_uniform_(torch.empty(rows, columns, device="cuda"))
    table.requires_grad = True
    return table

def guess(tables, a, b):
    people, books, w1, w2 = tables
    both = torch.hstack([people[a], books[b]])
    return (both @ w1).clamp(min=0) @ w2

def squared_error(tables, a, b, y):
    return ((guess(tables, a, b).squeeze(1) - y) ** 2).sum() / len(y)

def improve(tables, sums, a, b, y, rate=0.15):
    error = squared_error(tables, a, b, y)
    for table, slope, memory in zip(tables, torch.autograd.grad(error, tables), sums):
        memory += slope ** 2
        with torch.no_grad():
            table -= rate * slope / (memory.sqrt() + 1e-10)
    return error

def main():
    a, b, y = read_everything()
    tables = fresh(53424, 40), fresh(10000, 40), fresh(80, 40), fresh(40, 1)
    sums = [torch.zeros_like(t) for t in tables]
    for lap in range(33):
        order = torch.randperm(y.numel(), device="cuda")
        for low in range(0, y.numel(), 2000):
            pick = order[low:low + 2000]
            error = improve(tables, sums, a[pick], b[pick], y[pick])
        sys.stdout.write("lap %d rmse %.3f\n" % (lap, error.item() ** 0.5))

main()
