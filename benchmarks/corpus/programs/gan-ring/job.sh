#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --job-name=gan2d
#SBATCH --qos=normal
#SBATCH --time=20:00

#conda activate gans
python gan.py --n_critic 1 "$@"
