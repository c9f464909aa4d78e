"""Optimise an image so that its features match a content image and its Gram matrices a style image (Gatys et al.).

The features are those of a fixed random convolutional network, which is enough for textures.
"""
import argparse

import torch
import torch.nn.functional as F


def picture(kind: str, size: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    planes = {
        "rings": [torch.sin(20 * (x ** 2 + y ** 2)), torch.cos(12 * (x ** 2 + y ** 2)), x * y],
        "checker": [torch.sign(torch.sin(18 * x) * torch.sin(18 * y)), torch.sin(30 * x), torch.sin(30 * y)],
        "waves": [torch.sin(10 * x + 4 * torch.sin(6 * y)), torch.sin(9 * y), torch.cos(7 * x)],
    }
    return torch.stack(planes[kind])[None]


class RandomFeatures:
    def __init__(self, channels: int, depth: int):
        self.kernels, cin = [], 3
        for _ in range(depth):
            self.kernels.append(torch.randn(channels, cin, 3, 3) * (2 / (9 * cin)) ** 0.5)
            cin = channels

    def __call__(self, image):
        maps = []
        for kernel in self.kernels:
            image = F.relu(F.conv2d(image, kernel, padding=1))
            maps.append(image)
            image = F.avg_pool2d(image, 2)
        return maps


def gram(maps):
    flat = maps.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--content", default="rings")
    parser.add_argument("--style", default="checker")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--style-weight", type=float, default=10.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    features = RandomFeatures(args.channels, args.depth)
    content, style = picture(args.content, args.size), picture(args.style, args.size)
    content_maps = features(content)
    style_grams = [gram(m) for m in features(style)]
    image = content.clone().requires_grad_()
    momentum = torch.zeros_like(image)
    for i in range(args.iterations):
        maps = features(image)
        content_loss = F.mse_loss(maps[-1], content_maps[-1])
        style_loss = sum(F.mse_loss(gram(m), g) for m, g in zip(maps, style_grams))
        loss = content_loss + args.style_weight * style_loss
        (grad,) = torch.autograd.grad(loss, image)
        momentum = 0.9 * momentum + grad / (grad.abs().mean() + 1e-12)
        with torch.no_grad():
            image -= 0.005 * momentum
        if i % 10 == 0 or i == args.iterations - 1:
            print(f"iteration {i}: content {content_loss:.5f} style {style_loss:.5f} total {loss:.5f}")


if __name__ == "__main__":
    main()
