from __future__ import print_function
import argparse
import torch
import torch.nn as nn
import torchvision.datasets as dset
import torchvision.transforms as T

parser = argparse.ArgumentParser()
parser.add_argument('--dataset', default='celeba64')
parser.add_argument('--workers', type=int, default=2)
parser.add_argument('--batchSize', type=int, default=64)
parser.add_argument('--nz', type=int, default=100)
parser.add_argument('--ngf', type=int, default=64)
parser.add_argument('--niter', type=int, default=10, help='number of epochs')
opt = parser.parse_args()

netG = nn.Sequential(
    nn.ConvTranspose2d(opt.nz, opt.ngf * 8, 4, 1, 0), nn.BatchNorm2d(opt.ngf * 8), nn.ReLU(True),
    nn.ConvTranspose2d(opt.ngf * 8, opt.ngf * 4, 4, 2, 1), nn.BatchNorm2d(opt.ngf * 4), nn.ReLU(True),
    nn.ConvTranspose2d(opt.ngf * 4, opt.ngf * 2, 4, 2, 1), nn.BatchNorm2d(opt.ngf * 2), nn.ReLU(True),
    nn.ConvTranspose2d(opt.ngf * 2, 3, 4, 4, 0), nn.Tanh()).cuda()
netD = nn.Sequential(
    nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.LeakyReLU(0.2),
    nn.Conv2d(128, 256, 4, 2, 1), nn.BatchNorm2d(256), nn.LeakyReLU(0.2), nn.Conv2d(256, 1, 8), nn.Flatten()).cuda()
data = dset.ImageFolder('/datasets/celeba', T.Compose([T.Resize(64), T.CenterCrop(64), T.ToTensor()]))
loader = torch.utils.data.DataLoader(data, opt.batchSize, shuffle=True, num_workers=opt.workers)
bce = nn.BCEWithLogitsLoss()
oD, oG = (torch.optim.Adam(n.parameters(), 2e-4, (0.5, 0.999)) for n in (netD, netG))

for epoch in range(opt.niter):
    for i, (real, _) in enumerate(loader):
        real = real.cuda()
        z = torch.randn(len(real), opt.nz, 1, 1, device='cuda')
        fake = netG(z)
        dloss = bce(netD(real), torch.ones(len(real), 1).cuda()) + bce(netD(fake.detach()), torch.zeros(len(real), 1).cuda())
        oD.zero_grad(); dloss.backward(); oD.step()
        gloss = bce(netD(fake), torch.ones(len(real), 1).cuda())
        oG.zero_grad(); gloss.backward(); oG.step()
    print('[%d/%d] D %.3f G %.3f' % (epoch, opt.niter, dloss.item(), gloss.item()))
