#!/bin/bash
#SBATCH -J resnet
#SBATCH --gres=gpu:1
#SBATCH -c 8
#SBATCH --mem=16G
#SBATCH -t 0-04:00

set -e
export PYTHONUNBUFFERED=1
cd ${SLURM_SUBMIT_DIR:-.}
python3 -u main.py "$@"
