#!/bin/bash
#SBATCH --job-name=kmeans --gres=gpu:1 --time=20
#SBATCH --partition=gpu
export PYTHONUNBUFFERED=1
export RESTARTS=3
echo "started $(date)"
python train.py "$@"
