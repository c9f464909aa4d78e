import argparse
import torch
from torchvision.models.detection import ssd300_vgg16
from torchvision.datasets import CocoDetection

parser = argparse.ArgumentParser(description="SSD300 on COCO")
parser.add_argument("-e", "--epochs", type=int, default=6)
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--backbone-lr", type=float, default=2.6e-3)
parser.add_argument("--workers", type=int, default=6)
args = parser.parse_args()

device = torch.device("cuda")
coco = CocoDetection("/datasets/coco/train2017", "/datasets/coco/annotations/instances_train2017.json")
loader = torch.utils.data.DataLoader(coco, args.batch_size, shuffle=True, num_workers=args.workers,
                                     collate_fn=lambda b: tuple(zip(*b)))
model = ssd300_vgg16(num_classes=91).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=args.backbone_lr, momentum=0.9, weight_decay=5e-4)
scaler = torch.cuda.amp.GradScaler()

for epoch in range(args.epochs):
    for images, targets in loader:
        images = [i.to(device) for i in images]
        with torch.cuda.amp.autocast():
            losses = model(images, targets)
            total = sum(losses.values())
        optimizer.zero_grad()
        scaler.scale(total).backward()
        scaler.step(optimizer)
        scaler.update()
    print(epoch, float(total))
