#!/bin/bash
#SBATCH --gpus=1
#SBATCH --time=60
#SBATCH --job-name vgg
# args: epochs batch images classes stages
echo "job $SLURM_JOB_ID"
python vgg.py "$@"
