#!/usr/bin/env python
# coding: utf-8

# # Load forecast for 370 meters with a small LSTM
# In[1]:
import os
import torch, torch.nn as nn
import pandas as pd

EPOCHS = int(os.environ.get("EPOCHS", 40))
WINDOW = 168
BATCH = 64

# In[2]:
df = pd.read_csv("/datasets/electricity/LD2011_2014.txt", sep=";", decimal=",", index_col=0, parse_dates=True)
x = torch.tensor(df.resample("1h").mean().values, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)

# In[3]:
class Net(nn.Module):
    def __init__(self, n=370, h=64):
        super().__init__()
        self.rnn = nn.LSTM(n, h, 2, batch_first=True)
        self.out = nn.Linear(h, n)

    def forward(self, s):
        return self.out(self.rnn(s)[0][:, -1])

# In[4]:
net = Net().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for epoch in range(EPOCHS):
    for i in range(0, len(x) - WINDOW - BATCH, BATCH):
        s = torch.stack([x[i + k:i + k + WINDOW] for k in range(BATCH)]).cuda()
        y = x[i + WINDOW:i + WINDOW + BATCH].cuda()
        loss = nn.functional.l1_loss(net(s), y)
        opt.zero_grad(); loss.backward(); opt.step()
    print(epoch, loss.item())
