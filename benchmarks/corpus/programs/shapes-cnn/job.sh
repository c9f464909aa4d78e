#!/bin/bash
#SBATCH --job-name=shapes-cnn
#SBATCH --output=logs/%x_%j.out
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00:00

# module load cuda/12.1 anaconda3
# conda activate torch

python train.py --lr 0.05 "$@"
