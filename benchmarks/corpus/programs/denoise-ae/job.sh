#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --job-name=dae
#SBATCH --time=03:00:00
#SBATCH --mem=8G

EXTRA="--noise 0.4"
python3 denoise.py $EXTRA "$@"
