#!/bin/bash
#SBATCH --job-name=bagging
#SBATCH --gres=gpu:1
#SBATCH --time=00:59:00
#SBATCH --cpus-per-task=1

DATA=${DATA:-friedman}
python bagging.py "$@"
