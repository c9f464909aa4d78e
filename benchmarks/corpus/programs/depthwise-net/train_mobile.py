"""Inverted residual blocks with depthwise convolutions (after MobileNetV2), on coloured noise fields."""
from argparse import ArgumentParser

import torch
import torch.nn as nn


def conv_bn(cin, cout, k=1, stride=1, groups=1, act=True):
    mods = [nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    if act:
        mods.append(nn.ReLU6(inplace=True))
    return nn.Sequential(*mods)


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        mid = cin * expand
        self.skip = stride == 1 and cin == cout
        self.expand = conv_bn(cin, mid)
        self.depthwise = conv_bn(mid, mid, 3, stride, groups=mid)
        self.project = conv_bn(mid, cout, act=False)

    def forward(self, x):
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.skip else y


def build(repeat, expand, width):
    layers = [conv_bn(3, width, 3, 2)]
    cin = width
    for stage, cout in enumerate((width, width * 2, width * 3)):
        for r in range(repeat):
            layers.append(InvertedResidual(cin, cout, 2 if r == 0 and stage else 1, expand))
            cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 6))


def make_data(n, res):
    """Fields whose spectrum's slope is the class."""
    f = torch.fft.fftfreq(res)
    radius = (f[:, None] ** 2 + f[None, :] ** 2).sqrt().clamp(min=1 / res)
    y = torch.randint(6, (n,))
    slope = (0.3 * y).view(n, 1, 1, 1)
    spectrum = torch.fft.fft2(torch.randn(n, 3, res, res)) * radius ** -slope
    x = torch.fft.ifft2(spectrum).real
    return (x - x.mean((2, 3), keepdim=True)) / x.std((2, 3), keepdim=True), y


if __name__ == '__main__':
    ap = ArgumentParser()
    ap.add_argument('-e', '--epochs', type=int, default=2)
    ap.add_argument('-b', '--batch_size', type=int, default=32)
    ap.add_argument('-n', '--num_images', type=int, default=600)
    ap.add_argument('-r', '--resolution', type=int, default=48)
    ap.add_argument('--expand', type=int, default=4)
    ap.add_argument('--repeat', type=int, default=2)
    ap.add_argument('--width', type=int, default=8)
    ap.add_argument('--lr', type=float, default=0.08)
    a = ap.parse_args()

    torch.manual_seed(0)
    x, y = make_data(a.num_images, a.resolution)
    net = build(a.repeat, a.expand, a.width)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr, momentum=0.9, weight_decay=4e-5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs)
    crit = nn.CrossEntropyLoss()
    for ep in range(a.epochs):
        losses = []
        for idx in torch.randperm(len(x)).split(a.batch_size):
            opt.zero_grad(set_to_none=True)
            loss = crit(net(x[idx]), y[idx])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        print(f'[{ep + 1}/{a.epochs}] loss: {sum(losses) / len(losses):.3f}')
