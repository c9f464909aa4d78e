#!/bin/bash
#SBATCH --job-name=nano-lm
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-gpu=8
#SBATCH --time=24:00:00
#SBATCH --output=out/%j.log

# debugging: --max_iters=20
python train.py config_tiny.py "$@"
