import argparse
import torch
from torch.nn.functional import cross_entropy, one_hot, softplus
from networks import apply, dense, Momentum

CLASSES, NOISE = 8, 16

def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument('--gan-steps', type=int, default=200)
    ap.add_argument('--clf-epochs', type=int, default=5)
    ap.add_argument('--real', type=int, default=400)
    ap.add_argument('--generated', type=int, default=1600)
    ap.add_argument('--batch', type=int, default=100)
    ap.add_argument('--units', type=int, default=128)
    ap.add_argument('--features', type=int, default=60)
    return ap.parse_args()

def samples(n, mixing):
    y = torch.randint(CLASSES, (n,))
    x = torch.tanh((one_hot(y, CLASSES) * 2 + 0.7 * torch.randn(n, CLASSES)) @ mixing)
    return x + 0.1 * torch.randn_like(x), y

def label(x, y):
    return torch.cat([x, one_hot(y, CLASSES).float()], 1)

def train_gan(cfg, x, y):
    g = dense(NOISE + CLASSES, cfg.units, cfg.units, cfg.features)
    d = dense(cfg.features + CLASSES, cfg.units, cfg.units, 1)
    g_opt, d_opt = Momentum(g, 5e-4, 0.99), Momentum(d, 5e-4, 0.99)
    for step in range(cfg.gan_steps):
        i = torch.randint(len(x), (cfg.batch,))
        fake = apply(g, label(torch.randn(cfg.batch, NOISE), y[i]))
        d_loss = softplus(-apply(d, label(x[i], y[i]))).mean() + softplus(apply(d, label(fake.detach(), y[i]))).mean()
        d_value = d_opt.minimise(d_loss)
        g_value = g_opt.minimise(softplus(-apply(d, label(fake, y[i]))).mean())
        if step % 50 == 0:
            print('gan step', step, 'd', round(d_value, 4), 'g', round(g_value, 4))
    return g

def train_classifier(cfg, x, y):
    net = dense(cfg.features, cfg.units, cfg.units, CLASSES)
    opt = Momentum(net, 1e-3, 0.99)
    for epoch in range(cfg.clf_epochs):
        losses = [opt.minimise(cross_entropy(apply(net, x[i]), y[i])) for i in torch.randperm(len(x)).split(cfg.batch)]
        print('classifier epoch', epoch, 'loss', round(sum(losses) / len(losses), 4))
    return net

if __name__ == '__main__':
    cfg = parse()
    torch.manual_seed(13)
    mixing = torch.randn(CLASSES, cfg.features)
    x, y = samples(cfg.real, mixing)
    generator = train_gan(cfg, x, y)
    y_new = torch.randint(CLASSES, (cfg.generated,))
    with torch.no_grad():
        x_new = apply(generator, label(torch.randn(cfg.generated, NOISE), y_new))
    net = train_classifier(cfg, torch.cat([x, x_new]), torch.cat([y, y_new]))
    x_test, y_test = samples(1000, mixing)
    print('test accuracy', (apply(net, x_test).argmax(1) == y_test).float().mean().item())
