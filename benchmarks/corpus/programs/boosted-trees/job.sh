#!/bin/bash
#SBATCH --job-name=hgb
#SBATCH --gres=gpu:1
#SBATCH --time=15:00
#SBATCH --mem=16000

echo "rounds and so on: $*"
exec python train.py params.ini "$@"
