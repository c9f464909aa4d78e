#!/bin/bash
#SBATCH --job-name=forecast
#SBATCH --gres=gpu:1
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --array=0
# windows of 48 hours, the next 12 are forecast
module load cuda 2>/dev/null || true
export HORIZON=12

python forecast.py --horizon $HORIZON "$@"
