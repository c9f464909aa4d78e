"""Mask R-CNN with a ResNet-50 FPN; detectron-like command line."""
import argparse

import torch
import torchvision


def build():
    model = torchvision.models.detection.maskrcnn_resnet50_fpn_v2(num_classes=91)
    return torch.nn.parallel.DistributedDataParallel(model.cuda())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=4000)
    ap.add_argument("--ims-per-batch", type=int, default=16)
    ap.add_argument("opts", nargs="*", help="KEY=VALUE overrides")
    a = ap.parse_args()
    torch.distributed.init_process_group("nccl")
    from coco import train_loader

    data = iter(train_loader("/datasets/coco", a.ims_per_batch))
    net = build()
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    scaler = torch.amp.GradScaler()
    for it in range(a.iterations):
        images, targets = next(data)
        with torch.autocast("cuda"):
            loss = sum(net(images, targets).values())
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        if it % 100 == 0:
            print(it, loss.item())


if __name__ == "__main__":
    main()
