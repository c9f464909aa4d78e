#!/bin/bash
#SBATCH --job-name=rbf
#SBATCH --gres=gpu:1
#SBATCH --time=25
#SBATCH --begin=now

python pipeline.py "$@"
