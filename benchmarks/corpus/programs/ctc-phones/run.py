"""Connectionist temporal classification on 'speech' of a few formants: strided convolutions, a BiLSTM, CTC loss."""
import sys
import types

import torch
from torch import nn

hp = types.SimpleNamespace(epochs=1, utterances=200, batch=20, seconds=1.0, mels=40, hidden=64, layers=1, phones=20, lr=2e-3)
for word in sys.argv[1:]:
    name, value = word.split("=", 1)
    setattr(hp, name, type(getattr(hp, name))(value))
torch.manual_seed(6)


class Utterances(torch.utils.data.Dataset):
    """100 frames a second; every phone has a spectrum and lasts 6 to 14 frames."""

    def __init__(self, count):
        self.spectra = torch.randn(hp.phones + 1, hp.mels)
        self.items = [self.speak() for _ in range(count)]

    def speak(self):
        frames, phones = [], []
        while sum(map(len, frames)) < 100 * hp.seconds:
            p = int(torch.randint(1, hp.phones + 1, ()))
            length = int(torch.randint(6, 15, ()))
            frames.append(self.spectra[p] + 0.7 * torch.randn(length, hp.mels))
            phones.append(p)
        return torch.cat(frames)[: int(100 * hp.seconds)], torch.tensor(phones)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    return torch.stack([f for f, _ in items]), torch.cat([p for _, p in items]), torch.tensor([len(p) for _, p in items])


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(hp.mels, hp.hidden, 5, padding=2), nn.GELU(),
            nn.Conv1d(hp.hidden, hp.hidden, 3, stride=2, padding=1), nn.GELU(),
        )
        self.rnn = nn.LSTM(hp.hidden, hp.hidden, hp.layers, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hp.hidden, hp.phones + 1)

    def forward(self, x):
        x = self.front(x.transpose(1, 2)).transpose(1, 2)
        return self.out(self.rnn(x)[0]).log_softmax(-1)


data = Utterances(hp.utterances)
loader = torch.utils.data.DataLoader(data, hp.batch, shuffle=True, collate_fn=collate, drop_last=True)
model = Recogniser()
ctc = nn.CTCLoss(zero_infinity=True)
adam = torch.optim.Adam(model.parameters(), hp.lr)
for epoch in range(hp.epochs):
    mean = 0.0
    for frames, phones, lengths in loader:
        logp = model(frames)
        loss = ctc(logp.transpose(0, 1), phones, torch.full((len(frames),), logp.shape[1]), lengths)
        adam.zero_grad()
        loss.backward()
        adam.step()
        mean += loss.item() / len(loader)
    print("epoch", epoch, "ctc", round(mean, 4))
