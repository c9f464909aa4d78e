import argparse
import copy

import torch

from diffusion import EpsNet, GaussianDiffusion


def read_config(path):
    """key: value lines, comments allowed"""
    values = {}
    for line in open(path):
        line = line.split('#')[0].strip()
        if line:
            key, value = line.split(':')
            values[key] = float(value) if '.' in value else int(value)
    return values


def seven_segment(n, size):
    """Digits of seven segments, shifted a little, in [-1, 1]."""
    table = [0x77, 0x24, 0x5D, 0x6D, 0x2E, 0x6B, 0x7B, 0x25, 0x7F, 0x6F]
    u = size // 8
    boxes = [(1, 2, 2, 6), (1, 4, 1, 3), (1, 4, 5, 7), (3, 4, 2, 6), (4, 7, 1, 3), (4, 7, 5, 7), (6, 7, 2, 6)]
    digits = torch.full((10, 1, size, size), -1.0)
    for d, bits in enumerate(table):
        for s, (r0, r1, c0, c1) in enumerate(boxes):
            if bits >> s & 1:
                digits[d, 0, r0 * u:r1 * u, c0 * u:c1 * u] = 1.0
    x = digits[torch.randint(10, (n,))]
    shift = torch.randint(-u // 2, u // 2 + 1, (n, 2)).tolist()
    return torch.stack([torch.roll(img, s, (1, 2)) for img, s in zip(x, shift)])


def main():
    pre = argparse.ArgumentParser(add_help=False)
    pre.add_argument('--config', required=True)
    known, _ = pre.parse_known_args()
    parser = argparse.ArgumentParser(parents=[pre])
    for key, value in read_config(known.config).items():
        parser.add_argument('--' + key, type=type(value), default=value)
    cfg = parser.parse_args()

    torch.manual_seed(0)
    images = seven_segment(512, cfg.image_size)
    diffusion = GaussianDiffusion(cfg.num_timesteps)
    model = EpsNet(cfg.base_channels)
    ema = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)

    running = 0.0
    for step in range(1, cfg.train_steps + 1):
        x0 = images[torch.randint(len(images), (cfg.batch_size,))]
        loss = diffusion.loss(model, x0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.parameters()):
                e.lerp_(p, 1 - cfg.ema_decay)
        running += loss.item()
        if step % 20 == 0:
            print(f'step {step} loss {running / 20:.4f}')
            running = 0.0
    if cfg.sample_steps:
        x = diffusion.sample(ema, (8, 1, cfg.image_size, cfg.image_size), cfg.sample_steps)
        print('samples: mean %.3f std %.3f' % (x.mean(), x.std()))


if __name__ == '__main__':
    main()
