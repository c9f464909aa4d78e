#!/usr/bin/env bash
#SBATCH --job-name gmm
#SBATCH --gres gpu:1
#SBATCH --time 00:45:00
#SBATCH --nodes 1

python -u em.py "$@"
