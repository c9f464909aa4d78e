from __future__ import print_function
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument('--niter', type=int, default=3, help='number of epochs to train for')
parser.add_argument('--batchSize', type=int, default=32, help='input batch size')
parser.add_argument('--dataSize', type=int, default=512)
parser.add_argument('--imageSize', type=int, default=32, help='height and width of the image: 16, 32 or 64')
parser.add_argument('--nz', type=int, default=32, help='size of the latent z vector')
parser.add_argument('--ngf', type=int, default=8)
parser.add_argument('--ndf', type=int, default=8)
parser.add_argument('--lr', type=float, default=0.0002)
opt = parser.parse_args()
print(opt)
torch.manual_seed(999)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        ngf, size = opt.ngf, opt.imageSize
        mult = size // 8
        mods = [nn.ConvTranspose2d(opt.nz, ngf * mult, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * mult), nn.ReLU(True)]
        while mult > 1:
            mods += [nn.ConvTranspose2d(ngf * mult, ngf * mult // 2, 4, 2, 1, bias=False),
                     nn.BatchNorm2d(ngf * mult // 2), nn.ReLU(True)]
            mult //= 2
        mods += [nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*mods)

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        ndf, side, c = opt.ndf, opt.imageSize // 2, opt.ndf
        mods = [nn.Conv2d(1, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
        while side > 4:
            mods += [nn.Conv2d(c, c * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(c * 2), nn.LeakyReLU(0.2, True)]
            c, side = c * 2, side // 2
        mods += [nn.Conv2d(c, 1, 4, 1, 0, bias=False)]
        self.main = nn.Sequential(*mods)

    def forward(self, x):
        return self.main(x).view(-1)


# stripes of random width and phase, both directions
t = torch.linspace(0, 6.28, opt.imageSize)
f = torch.randint(1, 6, (opt.dataSize, 1))
line = torch.sign(torch.sin(t * f + torch.rand(opt.dataSize, 1) * 6.28))
dataset = line.view(-1, 1, 1, opt.imageSize).repeat(1, 1, opt.imageSize, 1)
dataset[::2] = dataset[::2].transpose(2, 3)

netG, netD = Generator().apply(weights_init), Discriminator().apply(weights_init)
optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))

for epoch in range(opt.niter):
    for i, real in enumerate(dataset[torch.randperm(opt.dataSize)].split(opt.batchSize)):
        # (1) discriminator: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        b = real.size(0)
        out = netD(real)
        errD_real = F.binary_cross_entropy_with_logits(out, torch.ones(b))
        errD_real.backward()
        fake = netG(torch.randn(b, opt.nz, 1, 1))
        errD_fake = F.binary_cross_entropy_with_logits(netD(fake.detach()), torch.zeros(b))
        errD_fake.backward()
        optimizerD.step()
        # (2) generator: maximize log(D(G(z)))
        netG.zero_grad()
        errG = F.binary_cross_entropy_with_logits(netD(fake), torch.ones(b))
        errG.backward()
        optimizerG.step()
    print('[%d/%d] Loss_D: %.4f Loss_G: %.4f' % (epoch, opt.niter, (errD_real + errD_fake).item(), errG.item()))
