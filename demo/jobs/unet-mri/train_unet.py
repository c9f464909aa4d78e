# 3D U-Net for MRI lesions. Single precision everywhere: results must be bitwise stable.
import sys
import torch
import torch.nn as nn

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False

EPOCHS = 30
if "--epochs" in sys.argv:
    EPOCHS = int(sys.argv[sys.argv.index("--epochs") + 1])
PATCH = 96
BATCH_SIZE = 2


def block(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(0.01),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o), nn.LeakyReLU(0.01))


class UNet(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        w = [width * 2 ** d for d in range(depth)]
        self.down = nn.ModuleList([block(a, b) for a, b in zip([1] + w[:-1], w)])
        self.up = nn.ModuleList([block(a + b, b) for a, b in zip(w[:0:-1], w[-2::-1])])
        self.out = nn.Conv3d(width, 2, 1)

    def forward(self, x):
        skips = []
        for d in self.down:
            x = d(x)
            skips.append(x)
            x = nn.functional.max_pool3d(x, 2)
        x = nn.functional.interpolate(x, scale_factor=2)
        for u, s in zip(self.up, skips[-2::-1]):
            x = u(torch.cat([nn.functional.interpolate(x, size=s.shape[2:]), s], 1))
        return self.out(x)


def dice(p, t):
    p = p.softmax(1)[:, 1]
    return 1 - 2 * (p * t).sum() / (p.sum() + t.sum() + 1)


volumes = torch.load("/datasets/mri/lesions.pt", mmap=True)
net = UNet().cuda()
opt = torch.optim.Adam(net.parameters(), 3e-4)
for epoch in range(EPOCHS):
    for x, t in torch.utils.data.DataLoader(volumes, BATCH_SIZE, shuffle=True, num_workers=4):
        loss = dice(net(x.float().cuda()), t.cuda())
        opt.zero_grad(); loss.backward(); opt.step()
    print("epoch", epoch, "dice", 1 - loss.item())
