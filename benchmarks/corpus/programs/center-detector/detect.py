"""Object detection as points: a heat map of centres and a map of box sizes, on rectangles drawn over noise."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDE = 4


def scene(n, size, objects, classes):
    img = 0.3 * torch.randn(n, 1, size, size)
    cells = size // STRIDE
    heat = torch.zeros(n, classes, cells, cells)
    wh = torch.zeros(n, 2, cells, cells)
    mask = torch.zeros(n, 1, cells, cells)
    grid = torch.arange(cells).float()
    for i in range(n):
        for _ in range(objects):
            w, h = torch.randint(8, size // 3, (2,)).tolist()
            x, y = torch.randint(0, size - w, ()).item(), torch.randint(0, size - h, ()).item()
            c = int(w > h) if classes == 2 else 0
            img[i, 0, y:y + h, x:x + w] += 1 if c else -1
            cx, cy = (x + w // 2) // STRIDE, (y + h // 2) // STRIDE
            bump = torch.exp(-((grid[:, None] - cy) ** 2 + (grid[None] - cx) ** 2) / 2)
            heat[i, c] = torch.maximum(heat[i, c], bump)
            wh[i, :, cy, cx] = torch.tensor([w, h]) / size
            mask[i, 0, cy, cx] = 1
    return img, heat, wh, mask


class Detector(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 2, dilation=2), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.heat = nn.Conv2d(2 * width, classes, 1)
        self.size = nn.Conv2d(2 * width, 2, 1)
        nn.init.constant_(self.heat.bias, -2.19)

    def forward(self, x):
        f = self.backbone(x)
        return self.heat(f), self.size(f)


def focal(logits, target):
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = target.eq(1)
    loss_pos = -((1 - p) ** 2 * p.log())[pos].sum()
    loss_neg = -((1 - target) ** 4 * p ** 2 * (1 - p).log())[~pos].sum()
    return (loss_pos + loss_neg) / pos.sum().clamp(min=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--ims-per-batch", type=int, default=8)
    ap.add_argument("--dataset-size", type=int, default=120)
    ap.add_argument("--img-size", type=int, default=96)
    ap.add_argument("--objects", type=int, default=3)
    ap.add_argument("--width", type=int, default=12)
    ap.add_argument("--classes", type=int, default=2)
    ap.add_argument("--log-every", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(77)
    img, heat, wh, mask = scene(args.dataset_size, args.img_size, args.objects, args.classes)
    net = Detector(args.width, args.classes)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for it in range(1, args.iters + 1):
        pick = torch.randint(len(img), (args.ims_per_batch,))
        h, s = net(img[pick])
        loss_heat = focal(h, heat[pick])
        loss_size = (F.l1_loss(s, wh[pick], reduction="none") * mask[pick]).sum() / mask[pick].sum()
        loss = loss_heat + 5 * loss_size
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % args.log_every == 0:
            print(f"iter {it}/{args.iters} heat {loss_heat.item():.3f} size {loss_size.item():.4f}")


if __name__ == "__main__":
    main()
