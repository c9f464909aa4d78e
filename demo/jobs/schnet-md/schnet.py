"""Molecular forces with SchNet on MD17, single precision; options as in a Lightning + Hydra project."""
import sys

import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

torch.backends.cuda.matmul.allow_tf32 = False
cfg = OmegaConf.merge(
    {"model": "schnet", "data": {"name": "aspirin", "batch_size": 32}, "trainer": {"max_epochs": 60}, "cutoff": 5.0},
    OmegaConf.from_dotlist(sys.argv[1:]),
)


class SchNet(pl.LightningModule):
    def __init__(self, hidden=128, filters=128, interactions=6):
        super().__init__()
        self.emb = torch.nn.Embedding(100, hidden)
        self.filters = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(50, filters), torch.nn.Softplus(), torch.nn.Linear(filters, filters)) for _ in range(interactions))
        self.mix = torch.nn.ModuleList(torch.nn.Linear(filters, hidden) for _ in range(interactions))
        self.out = torch.nn.Sequential(torch.nn.Linear(hidden, 64), torch.nn.Softplus(), torch.nn.Linear(64, 1))

    def energy(self, z, pos):
        d = torch.cdist(pos, pos)
        rbf = torch.exp(-10 * (d[..., None] - torch.linspace(0, cfg.cutoff, 50, device=d.device)) ** 2)
        h = self.emb(z)
        for f, m in zip(self.filters, self.mix):
            h = h + m((f(rbf) * h[:, None]).sum(2))
        return self.out(h).sum((1, 2))

    def training_step(self, batch, _):
        z, pos, e, forces = batch
        pos.requires_grad_(True)
        pred = self.energy(z, pos)
        f = -torch.autograd.grad(pred.sum(), pos, create_graph=True)[0]
        return (pred - e).square().mean() + 100 * (f - forces).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 5e-4)


if __name__ == "__main__":
    from md17 import loader

    trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=cfg.trainer.max_epochs)
    trainer.fit(SchNet(), loader(cfg.data.name, cfg.data.batch_size))
