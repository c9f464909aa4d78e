#!/bin/bash
#SBATCH --job-name=sr_x2
#SBATCH --gres=gpu:1
#SBATCH --time=16:00:00
#SBATCH --nice=100
#SBATCH --cpus-per-task=4

export CUDA_VISIBLE_DEVICES=0
SCALE=2
python train_sr.py --scale ${SCALE} "$@"
