import argparse

import torch
import torch.distributed as dist
import torchvision as tv
from torch.nn.parallel import DistributedDataParallel as DDP


def parse():
    p = argparse.ArgumentParser("ImageNet, ResNet-50, mixed precision")
    p.add_argument("--data", default="/datasets/imagenet")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=256, help="per GPU")
    p.add_argument("--lr", type=float, default=0.1)
    return p.parse_args()


def loader(root, split, batch):
    ops = [tv.transforms.RandomResizedCrop(224), tv.transforms.RandomHorizontalFlip(), tv.transforms.ToTensor()]
    ds = tv.datasets.ImageFolder(f"{root}/{split}", tv.transforms.Compose(ops))
    sampler = torch.utils.data.distributed.DistributedSampler(ds)
    return torch.utils.data.DataLoader(ds, batch, sampler=sampler, num_workers=8, pin_memory=True)


def train_epoch(model, data, opt, scaler, loss_fn):
    model.train()
    for images, labels in data:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.cuda.amp.autocast():
            loss = loss_fn(model(images), labels)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def main():
    args = parse()
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = DDP(tv.models.resnet50().cuda().to(memory_format=torch.channels_last))
    opt = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    scaler = torch.cuda.amp.GradScaler()
    data = loader(args.data, "train", args.batch_size)
    for epoch in range(args.epochs):
        data.sampler.set_epoch(epoch)
        train_epoch(model, data, opt, scaler, torch.nn.CrossEntropyLoss(label_smoothing=0.1))
        sched.step()
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"rn50-{epoch}.pt")


if __name__ == "__main__":
    main()
