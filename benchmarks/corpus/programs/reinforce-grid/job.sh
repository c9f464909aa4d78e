#!/bin/bash
#SBATCH --job-name=pg-grid
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
#SBATCH --time=05:00:00
#SBATCH --array=0
SEED=${SLURM_ARRAY_TASK_ID:-0}
python reinforce.py --seed $SEED "$@"
