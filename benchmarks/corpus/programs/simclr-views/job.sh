#!/bin/bash
#SBATCH --time=04:30:00
#SBATCH --gres=gpu:1
#SBATCH --job-name=simclr
#SBATCH --cpus-per-task=10
cd $SLURM_SUBMIT_DIR
python main.py --temperature 0.2 "$@"
