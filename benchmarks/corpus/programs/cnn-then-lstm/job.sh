#!/bin/bash
#SBATCH --job-name=cnn+lstm
#SBATCH --gres=gpu:1
#SBATCH --time=01:30:00
#SBATCH --mem=24G

# one after the other, on the same GPU
python run_both.py "$@"
