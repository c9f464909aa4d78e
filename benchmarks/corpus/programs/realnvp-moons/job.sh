#!/bin/bash
#SBATCH --job-name=flow
#SBATCH --gpus=1
#SBATCH --time=0-02:00
#SBATCH --cpus-per-task=3
export MPLBACKEND=Agg
python -u flow.py "$@"
