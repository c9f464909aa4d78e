#!/bin/bash
#SBATCH --job-name=rn50
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
module load cuda 2>/dev/null
export OMP_NUM_THREADS=4
torchrun --standalone --nproc_per_node=2 main.py --data /datasets/imagenet "$@"
