#!/bin/bash
#SBATCH --job-name=pca
#SBATCH --partition=a100,a6000
#SBATCH --gres=gpu:1
#SBATCH --time=00:10:00
WORK=${TMPDIR:-/tmp}
echo "scratch: $WORK"
python train.py "$@"
