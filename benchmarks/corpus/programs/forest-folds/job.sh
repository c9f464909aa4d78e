#!/bin/bash
#SBATCH --job-name=rf-cv
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#SBATCH --output=logs/%x-%A.out

set -eu
python cv.py --max-depth 12 "$@"
