#!/bin/bash
#SBATCH --job-name=ncf
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-gpu=4
#SBATCH --time=03:00:00

SEED=13
python ncf.py --seed $SEED --negatives 4 "$@"
