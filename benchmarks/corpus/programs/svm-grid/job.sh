#!/bin/bash
#SBATCH --job-name=svm
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:20:00
export JOBLIB_TEMP_FOLDER=${TMPDIR:-/tmp}

python grid.py "$@"
