#!/bin/bash
#SBATCH --gres=gpu:1
EPOCHS=${EPOCHS:-8}
time python train.py -m WaveGlow -o out --amp --epochs $EPOCHS -bs 10 --segment-length 8000
