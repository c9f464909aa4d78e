#!/bin/bash
#SBATCH --job-name=vit
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=6
#SBATCH --time=08:00:00
#SBATCH --output=slurm-%j.out

module load python cuda 2>/dev/null
export TOKENIZERS_PARALLELISM=false
python -u vit.py "$@"
