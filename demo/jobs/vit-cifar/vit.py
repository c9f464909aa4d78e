"""Vision transformer from scratch on CIFAR-100."""
import click
import torch
from torch import nn
from torchvision import datasets, transforms


class ViT(nn.Module):
    def __init__(self, size=32, patch=4, dim=384, depth=7, heads=6, classes=100):
        super().__init__()
        n = (size // patch) ** 2
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 4, 0.1, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.body(x)[:, 0])


@click.command()
@click.option("--epochs", default=20)
@click.option("--batch-size", default=512)
@click.option("--lr", default=1e-3)
def main(epochs, batch_size, lr):
    aug = transforms.Compose([transforms.RandAugment(), transforms.RandomCrop(32, 4), transforms.ToTensor()])
    train = datasets.CIFAR100("data", train=True, download=True, transform=aug)
    loader = torch.utils.data.DataLoader(train, batch_size, shuffle=True, num_workers=4, drop_last=True)
    net = ViT().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr, weight_decay=0.05)
    for ep in range(epochs):
        for x, y in loader:
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda(), label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {ep} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
