#!/bin/bash
#SBATCH -N 1
#SBATCH --gpus-per-task=1
#SBATCH -n 1
module purge
source ~/venvs/nmt/bin/activate 2>/dev/null
srun python -u train_nmt.py --train-batch-size 128 --epochs=${EPOCHS:-2}
