#!/bin/bash
#SBATCH --job-name=fm-ctr
#SBATCH --gres=gpu:1
#SBATCH --qos=normal
#SBATCH --time=90

exec python fm.py "$@"
