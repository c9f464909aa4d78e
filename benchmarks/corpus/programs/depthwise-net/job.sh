#!/bin/bash
#SBATCH --job-name=mbnet
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --mail-type=FAIL

# pip install torch
LR=0.08
python train_mobile.py --lr=$LR "$@"
