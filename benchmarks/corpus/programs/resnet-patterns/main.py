# ResNet on synthetic colour gratings: the class is the orientation of the grating.
import argparse
import math
import torch
import torch.nn.functional as F
from model import ResNet

CLASSES = 8
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4

parser = argparse.ArgumentParser()
parser.add_argument('--num_epochs', default=3, type=int)
parser.add_argument('--bs', default=32, type=int)
parser.add_argument('--n_train', default=512, type=int)
parser.add_argument('--blocks', default=1, type=int, help='residual blocks per stage')
parser.add_argument('--base_channels', default=8, type=int)
parser.add_argument('--img_size', default=32, type=int)
parser.add_argument('--max_lr', default=0.1, type=float)
args = parser.parse_args()

torch.manual_seed(42)


def gratings(n):
    y = torch.randint(CLASSES, (n,))
    angle = (y * math.pi / CLASSES).view(n, 1, 1, 1)
    t = torch.linspace(-1, 1, args.img_size)
    plane = t.view(1, 1, -1, 1) * angle.sin() + t.view(1, 1, 1, -1) * angle.cos()
    freq = torch.rand(n, 3, 1, 1) * 8 + 6
    x = torch.sin(freq * plane + torch.rand(n, 3, 1, 1) * 6.28)
    return x + 0.3 * torch.randn_like(x), y


class NesterovSGD:
    """SGD with Nesterov momentum and weight decay, kept small on purpose."""

    def __init__(self, params):
        self.params = list(params)
        self.buffers = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, lr):
        for p, buf in zip(self.params, self.buffers):
            g = p.grad.add(p, alpha=WEIGHT_DECAY)
            buf.mul_(MOMENTUM).add_(g)
            p.add_(g.add(buf, alpha=MOMENTUM), alpha=-lr)
            p.grad = None


x, y = gratings(args.n_train)
net = ResNet(args.blocks, args.base_channels, CLASSES)
print('parameters:', sum(p.numel() for p in net.parameters()))
opt = NesterovSGD(net.parameters())
iters = args.num_epochs * math.ceil(args.n_train / args.bs)
it = 0
for epoch in range(args.num_epochs):
    net.train()
    running, correct = 0.0, 0
    for idx in torch.randperm(args.n_train).split(args.bs):
        lr = args.max_lr * 0.5 * (1 + math.cos(math.pi * it / iters))
        logits = net(x[idx])
        loss = F.cross_entropy(logits, y[idx], label_smoothing=0.1)
        loss.backward()
        opt.step(lr)
        running += loss.item() * len(idx)
        correct += (logits.argmax(1) == y[idx]).sum().item()
        it += 1
    print('Epoch %d: loss=%.4f acc=%.2f%% lr=%.4f' % (epoch, running / args.n_train, 100 * correct / args.n_train, lr))
