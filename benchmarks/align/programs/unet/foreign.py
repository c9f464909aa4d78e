#!/usr/bin/env python3
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
import torch
from torch import nn
from torch.nn import functional as F
import logging
logging.basicConfig(level=logging.INFO)

PARAMS = {}
BUFFERS = {}

def scope(name, shape):
    if name not in PARAMS:
        PARAMS[name] = nn.Parameter(torch.nn.init.kaiming_normal_(torch.zeros(shape, device="cuda")) if len(shape) > 1 else torch.zeros(shape, device="cuda"))
    return PARAMS[name]

def conv_bn_relu(x, name, filters):
    x = F.conv2d(x, scope(name + "/W", (filters, x.size(1), 3, 3)), scope(name + "/b", (filters,)), padding="same")
    x = F.batch_norm(x, None, None, 1 + scope(name + "/gamma", (filters,)), scope(name + "/beta", (filters,)), training=True)
    return F.relu(x)

def twice(x, name, filters):
    return conv_bn_relu(conv_bn_relu(x, name + "/1", filters), name + "/2", filters)

def segment(x):
    left = twice(x, "left", 24)
    low = twice(F.max_pool2d(left, 2), "low", 48)
    low = F.conv_transpose2d(low, scope("rise/W", (48, 24, 2, 2)), scope("rise/b", (24,)), stride=2)
    right = twice(torch.cat((left, low), 1), "right", 24)
    return F.conv2d(right, scope("classes/W", (5, 24, 1, 1)), scope("classes/b", (5,)))

pictures, outlines = torch.load("/scratch/ines/nuclei.pt")
segment(pictures[:1].cuda())
solver = torch.optim.Adam(list(PARAMS.values()), 0.003, weight_decay=2e-5)
iteration = 0
for pass_number in range(1, 141):
    for part in torch.arange(len(pictures)).chunk(len(pictures) // 28 or 1):
        prediction = segment(pictures[part].cuda())
        objective = F.nll_loss(F.log_softmax(prediction, 1), outlines[part].cuda())
        [setattr(p, "grad", None) for p in PARAMS.values()]
        objective.backward()
        solver.step()
        iteration += 1
    logging.info("pass %s, iteration %s: %s", pass_number, iteration, objective.detach().cpu().numpy())
