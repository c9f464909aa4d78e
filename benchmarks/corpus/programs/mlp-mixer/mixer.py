"""MLP-Mixer. Settings are given as key=value and override the dictionary below."""
import sys

import torch
from torch import nn

config = {
    'epochs': 4,
    'batch_size': 32,
    'num_samples': 640,
    'image_size': 32,
    'patch_size': 8,
    'hidden_dim': 64,
    'num_blocks': 3,
    'lr': 0.1,
    'seed': 0,
}
for arg in sys.argv[1:]:
    key, value = arg.split('=')
    config[key] = type(config[key])(value)


def mlp(features, hidden):
    return nn.Sequential(nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, features))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.ln_tokens = nn.LayerNorm(dim)
        self.ln_channels = nn.LayerNorm(dim)
        self.token_mixing = mlp(tokens, dim // 2)
        self.channel_mixing = mlp(dim, dim * 4)

    def forward(self, x):
        x = x + self.token_mixing(self.ln_tokens(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mixing(self.ln_channels(x))


class Mixer(nn.Module):
    def __init__(self, image_size, patch_size, hidden_dim, num_blocks):
        super().__init__()
        self.p = patch_size
        tokens = (image_size // patch_size) ** 2
        self.stem = nn.Linear(3 * patch_size ** 2, hidden_dim)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, hidden_dim) for _ in range(num_blocks)))
        self.head = nn.Linear(hidden_dim, 10)

    def forward(self, x):
        patches = nn.functional.unfold(x, self.p, stride=self.p).transpose(1, 2)
        return self.head(self.blocks(self.stem(patches)).mean(1))


torch.manual_seed(config['seed'])
size, n = config['image_size'], config['num_samples']
templates = nn.functional.interpolate(torch.randn(10, 3, 6, 6), size, mode='bicubic')
labels = torch.arange(n) % 10
images = templates[labels] + 0.8 * torch.randn(n, 3, size, size)

model = Mixer(size, config['patch_size'], config['hidden_dim'], config['num_blocks'])
weights = [p for p in model.parameters() if p.requires_grad]
velocity = [torch.zeros_like(w) for w in weights]
print(config, 'weights:', sum(w.numel() for w in weights))

for epoch in range(config['epochs']):
    order, losses = torch.randperm(n), []
    for start in range(0, n, config['batch_size']):
        pick = order[start:start + config['batch_size']]
        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
        grads = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            torch._foreach_mul_(velocity, 0.9)
            torch._foreach_add_(velocity, grads)
            torch._foreach_add_(weights, velocity, alpha=-config['lr'] / 10)
        losses.append(loss.item())
    print('epoch', epoch, 'train loss', round(sum(losses) / len(losses), 4))
