#!/bin/bash
#SBATCH --job-name=ddpm
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=48G
#SBATCH --time=2-00:00:00
#SBATCH --requeue

export WANDB_MODE=offline
python train.py --config configs/small.yaml "$@"
