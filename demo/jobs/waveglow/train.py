# Tacotron2/WaveGlow style trainer: "-m WaveGlow" trains the vocoder on LJSpeech.
import argparse
import torch
from torch import nn

ap = argparse.ArgumentParser(description="speech synthesis")
ap.add_argument("-m", "--model-name", default="WaveGlow")
ap.add_argument("-o", "--output")
ap.add_argument("--amp", action="store_true")
ap.add_argument("--epochs", type=int, default=8)
ap.add_argument("-bs", "--batch-size", type=int, default=10)
ap.add_argument("--segment-length", type=int, default=4000)
ap.add_argument("--sampling-rate", type=int, default=22050)
args = ap.parse_args()


class WN(nn.Module):
    def __init__(self, half, mel=640, ch=512, layers=8):
        super().__init__()
        self.start, self.end = nn.Conv1d(half, ch, 1), nn.Conv1d(ch, 2 * half, 1)
        self.convs = nn.ModuleList(nn.Conv1d(ch, 2 * ch, 3, dilation=2**i, padding=2**i) for i in range(layers))
        self.cond = nn.Conv1d(mel, 2 * ch * layers, 1)
        self.skip = nn.ModuleList(nn.Conv1d(ch, 2 * ch, 1) for _ in range(layers))

    def forward(self, x, mel):
        x, out = self.start(x), 0
        conds = self.cond(mel).chunk(len(self.convs), 1)
        for conv, skip, c in zip(self.convs, self.skip, conds):
            a, b = (conv(x) + c).chunk(2, 1)
            r, s = skip(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, out = x + r, out + s
        return self.end(out).chunk(2, 1)


flows = nn.ModuleList(WN(4) for _ in range(12)).cuda()
opt = torch.optim.Adam(flows.parameters(), 1e-4)
scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
from ljspeech import loader

for epoch in range(args.epochs):
    for audio, mel in loader(args.batch_size, args.segment_length):
        with torch.cuda.amp.autocast(enabled=args.amp):
            logdet, x = 0, audio.view(len(audio), 8, -1).cuda()
            for f in flows:
                a, b = x.chunk(2, 1)
                s, t = f(a, mel.cuda())
                x, logdet = torch.cat([b * s.exp() + t, a], 1), logdet + s.sum()
            loss = (x * x).sum() / 2 - logdet
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
