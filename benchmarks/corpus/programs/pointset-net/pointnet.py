import argparse

import torch
import torch.nn as nn

import shapes


class SharedMLP(nn.Sequential):
    def __init__(self, *widths):
        mods = []
        for i, o in zip(widths, widths[1:]):
            mods += [nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()]
        super().__init__(*mods)


class PointNet(nn.Module):
    def __init__(self, width, classes, dropout):
        super().__init__()
        self.local = SharedMLP(3, width, width)
        self.wide = SharedMLP(width, 2 * width, 8 * width)
        self.classifier = nn.Sequential(nn.Linear(8 * width, 2 * width), nn.ReLU(), nn.Dropout(dropout),
                                        nn.Linear(2 * width, classes))

    def forward(self, cloud):
        features = self.wide(self.local(cloud.transpose(1, 2)))
        return self.classifier(features.amax(-1))


class Trainer:
    def __init__(self, model, lr, momentum=0.9):
        self.model, self.lr, self.momentum = model, lr, momentum
        self.velocity = {}

    def update(self):
        for name, p in self.model.named_parameters():
            v = self.velocity.get(name, 0)
            self.velocity[name] = v = self.momentum * v + p.grad
            p.data -= self.lr * v
            p.grad = None

    def epoch(self, x, y, batch_size):
        self.model.train()
        loss_sum = 0.0
        for index in torch.randperm(len(x)).split(batch_size):
            if len(index) == 1:
                continue
            loss = nn.functional.cross_entropy(self.model(x[index]), y[index])
            loss.backward()
            self.update()
            loss_sum += loss.item() * len(index)
        return loss_sum / len(x)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nepoch", type=int, default=4)
    parser.add_argument("--batchsize", type=int, default=32)
    parser.add_argument("--num-clouds", type=int, default=400)
    parser.add_argument("--num-points", type=int, default=256)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.3)
    options = parser.parse_args()
    torch.manual_seed(55)
    x, y = shapes.clouds(options.num_clouds, options.num_points)
    trainer = Trainer(PointNet(options.width, len(shapes.KINDS), options.dropout), lr=0.01)
    for n in range(options.nepoch):
        print(f"[{n}] train loss: {trainer.epoch(x, y, options.batchsize):.4f}")
