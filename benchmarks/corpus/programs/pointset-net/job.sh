#!/bin/bash
#SBATCH --job-name=pointnet
#SBATCH --gpus=1
#SBATCH --cpus-per-task=6
#SBATCH --time=6:00:00
#SBATCH --exclude=node07

time python -u pointnet.py --dropout 0.1 "$@"
