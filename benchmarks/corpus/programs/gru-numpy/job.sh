#!/bin/bash
#SBATCH --job-name=gru-adding
#SBATCH --gres=gpu:1
#SBATCH --time=02:00:00
#SBATCH --mail-type=NONE

set -e
ulimit -c 0
python train.py "$@"
