#!/bin/bash
#SBATCH --job-name=fasttext
#SBATCH --gres=gpu:1
#SBATCH --time=00:59:00
#SBATCH --nice=50

python -W ignore fast.py "$@"
