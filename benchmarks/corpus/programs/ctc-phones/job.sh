#!/bin/bash
#SBATCH --job-name=asr
#SBATCH --gres=gpu:1
#SBATCH --time=16:00:00
#SBATCH --tmp=20G
#SBATCH --output=/dev/null
set -x
python run.py epochs=2 "$@"
