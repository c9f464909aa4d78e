#!/bin/bash
#SBATCH --job-name=stack
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=1:00:00

python stack.py --max-features 0.5 "$@"
