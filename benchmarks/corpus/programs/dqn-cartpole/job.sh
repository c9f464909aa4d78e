#!/bin/bash
#SBATCH --job-name=dqn
#SBATCH --gres=gpu:1
#SBATCH --time=2:30:00
#SBATCH --mem=6G

python dqn.py --num-envs 8 "$@"
