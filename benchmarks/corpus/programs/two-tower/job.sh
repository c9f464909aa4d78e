#!/bin/bash
#SBATCH --job-name=retrieval
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=06:00:00
#SBATCH --output=retrieval_%j.out

set -eo pipefail
source env.sh
python -m towers.train "$@"
