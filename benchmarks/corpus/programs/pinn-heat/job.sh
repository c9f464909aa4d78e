#!/bin/bash
#SBATCH --job-name=pinn
#SBATCH --gres=gpu:1
#SBATCH --time=3:00:00
#SBATCH --ntasks=1
#SBATCH --mem-per-gpu=16G

python heat.py "$@"
