#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --job-name=s2s
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --requeue

hostname; date
python train.py --optimizer adam "$@"
date
