#!/bin/bash
#SBATCH --job-name=logreg-lbfgs
#SBATCH --output=%x.%j
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:20:00

# L-BFGS, a fixed number of iterations for each strength of the penalty
date +%F
python run_lbfgs.py --path 1 1e-2 1e-5 "$@"
