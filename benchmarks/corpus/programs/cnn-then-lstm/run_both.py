"""A CNN on small pictures, then an LSTM on sequences. The two have nothing to do with each other but the job."""
import argparse

import torch

from parts import fit, make_cnn, make_lstm, pictures, signals

ap = argparse.ArgumentParser()
ap.add_argument("--cnn-epochs", type=int, default=1)
ap.add_argument("--lstm-epochs", type=int, default=1)
ap.add_argument("--cnn-channels", type=int, default=16)
ap.add_argument("--lstm-hidden", type=int, default=48)
ap.add_argument("--images", type=int, default=1500)
ap.add_argument("--sequences", type=int, default=1200)
ap.add_argument("--batch-size", type=int, default=64)
args = ap.parse_args()

torch.manual_seed(3)
print("== CNN")
fit(make_cnn(args.cnn_channels), *pictures(args.images), args.cnn_epochs, args.batch_size, lr=0.05)
print("== LSTM")
fit(make_lstm(args.lstm_hidden), *signals(args.sequences), args.lstm_epochs, args.batch_size, lr=0.3)
