"""Denoising diffusion on LSUN bedrooms 64x64. Hydra-like configuration."""
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf

base = OmegaConf.create({
    "model": "unet-small",
    "train": {"steps": 5000, "batch_size": 64, "lr": 2e-4, "ema": 0.9999},
    "diffusion": {"timesteps": 1000, "schedule": "linear"},
})
cfg = OmegaConf.merge(base, OmegaConf.from_cli())
T = cfg.diffusion.timesteps
beta = torch.linspace(1e-4, 0.02, T).cuda()
abar = torch.cumprod(1 - beta, 0)


def noisy(x0, t, eps):
    a = abar[t].view(-1, 1, 1, 1)
    return a.sqrt() * x0 + (1 - a).sqrt() * eps


def main():
    from models import UNet2D
    from lsun import batches

    net = UNet2D(channels=128, mults=(1, 2, 2, 4), attention=(16,)).cuda().to(memory_format=torch.channels_last)
    ema = {k: v.clone() for k, v in net.state_dict().items()}
    opt = torch.optim.AdamW(net.parameters(), cfg.train.lr)
    for step, x0 in zip(range(cfg.train.steps), batches("/datasets/lsun", cfg.train.batch_size)):
        t = torch.randint(0, T, (len(x0),), device="cuda")
        eps = torch.randn_like(x0)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.mse_loss(net(noisy(x0, t, eps), t), eps)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        for k, v in net.state_dict().items():
            ema[k].lerp_(v, 1 - cfg.train.ema)
        if step % 200 == 0:
            print(step, loss.item(), flush=True)
    torch.save(ema, "ema.pt")


if __name__ == "__main__":
    main()
