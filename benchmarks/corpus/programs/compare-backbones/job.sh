#!/bin/bash
#SBATCH --job-name=cnn-vs-attn
#SBATCH --gres=gpu:1
#SBATCH --time=9:00:00
#SBATCH --comment="table 3"

python compare.py --lr 3e-3 "$@"
