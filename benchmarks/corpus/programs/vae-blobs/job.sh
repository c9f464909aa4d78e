#!/bin/bash
#SBATCH --job-name=vae
#SBATCH --gres=gpu:1
#SBATCH --time=90
#SBATCH --export=ALL
# sbatch job.sh --config base.json --max-epochs 12
python3 train_vae.py "$@"
