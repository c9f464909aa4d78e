import sys
import torch
from torch import nn

# usage: vgg.py EPOCHS BATCH IMAGES SIZE [PLAN]
# PLAN is like 8-8-M-16-M: numbers are 3x3 convolutions, M halves the image

epochs, batch, images, size = map(int, sys.argv[1:5])
plan = sys.argv[5] if len(sys.argv) > 5 else '8-M-16-M-32-M'
torch.manual_seed(7)

layers, c = [], 3
for item in plan.split('-'):
    if item == 'M':
        layers += [nn.MaxPool2d(2)]
    else:
        layers += [nn.Conv2d(c, int(item), 3, padding=1), nn.BatchNorm2d(int(item)), nn.ReLU()]
        c = int(item)
side = size // 2 ** plan.count('M')
net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(c * side * side, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))

# textures: noise smoothed by one of ten random kernels
kernels = torch.randn(10, 1, 5, 5)
labels = torch.randint(10, (images,))
data = torch.empty(images, 3, size, size)
for k in range(10):
    rows = (labels == k).nonzero().flatten()
    noise = torch.randn(len(rows) * 3, 1, size, size)
    data[rows] = nn.functional.conv2d(noise, kernels[k:k + 1], padding=2).view(-1, 3, size, size)
data /= data.std()

criterion = nn.CrossEntropyLoss()
lr = 0.02
for e in range(epochs):
    perm = torch.randperm(images)
    seen = 0
    for b in range(0, images - batch + 1, batch):
        i = perm[b:b + batch]
        out = net(data[i])
        loss = criterion(out, labels[i])
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= lr * p.grad
        seen += loss.item()
    lr *= 0.9
    print(e, seen / (images // batch))
