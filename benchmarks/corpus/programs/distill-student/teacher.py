import torch
from torch.nn.functional import cross_entropy

from common import accuracy, adam_step, network, options, spirals

opt = options("--save")
torch.manual_seed(0)
x, y = spirals(opt.n_train, seed=1)
teacher, state = network(opt.teacher_width, depth=4), {}
for epoch in range(opt.teacher_epochs):
    for rows in torch.randperm(len(x)).split(opt.batch_size):
        loss = cross_entropy(teacher(x[rows]), y[rows])
        loss.backward()
        adam_step(teacher, state)
    print("teacher", epoch, f"{loss.item():.4f} {accuracy(teacher):.4f}")
torch.save(teacher.state_dict(), opt.save)
