#!/bin/bash
#SBATCH --job-name=w2v
#SBATCH --gres=gpu:1
#SBATCH --time=00:15:00
#SBATCH --mem-per-cpu=4000M

export PYTHONHASHSEED=0
python train.py corpus=markov "$@"
