#!/bin/bash
#SBATCH -J lasso
#SBATCH --gres=gpu:1
#SBATCH -c 4
#SBATCH -t 00:10:00
#SBATCH --hint=nomultithread
python path.py "$@" \
    --seed 4
