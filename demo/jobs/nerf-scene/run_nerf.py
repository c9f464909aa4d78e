"""Neural radiance field of one scene: hierarchical sampling, single precision."""
import configargparse
import torch
import torch.nn.functional as F


def config_parser():
    parser = configargparse.ArgumentParser()
    parser.add_argument("--config", is_config_file=True)
    parser.add_argument("--N_iters", type=int, default=20000)
    parser.add_argument("--N_rand", type=int, default=4096, help="rays per step")
    parser.add_argument("--N_samples", type=int, default=64)
    parser.add_argument("--N_importance", type=int, default=128)
    parser.add_argument("--no_tf32", action="store_true")
    return parser


class NeRF(torch.nn.Module):
    def __init__(self, D=8, W=256):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(63, W)] + [torch.nn.Linear(W + 63 if i == 4 else W, W) for i in range(D - 1)])
        self.sigma, self.rgb = torch.nn.Linear(W, 1), torch.nn.Sequential(torch.nn.Linear(W + 27, W // 2), torch.nn.ReLU(), torch.nn.Linear(W // 2, 3))

    def forward(self, pts, dirs):
        h = pts
        for i, layer in enumerate(self.layers):
            h = F.relu(layer(torch.cat([h, pts], -1) if i == 5 else h))
        return torch.sigmoid(self.rgb(torch.cat([h, dirs], -1))), F.relu(self.sigma(h))


def train():
    args = config_parser().parse_args()
    torch.backends.cuda.matmul.allow_tf32 = not args.no_tf32
    from rays import load_rays, render

    coarse, fine = NeRF().cuda(), NeRF().cuda()
    opt = torch.optim.Adam([*coarse.parameters(), *fine.parameters()], 5e-4)
    rays, rgb = load_rays("/datasets/nerf_synthetic/lego")
    for it in range(args.N_iters):
        idx = torch.randint(0, len(rays), (args.N_rand,))
        out0, out1 = render(coarse, fine, rays[idx].cuda(), args.N_samples, args.N_importance)
        loss = F.mse_loss(out0, rgb[idx].cuda()) + F.mse_loss(out1, rgb[idx].cuda())
        opt.zero_grad(); loss.backward(); opt.step()


if __name__ == "__main__":
    train()
