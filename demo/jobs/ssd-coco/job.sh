#!/bin/bash
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=6
#SBATCH --output=ssd_%j.log
srun python detect.py "$@"
