#!/bin/bash
#SBATCH --gpus-per-task=1
#SBATCH --ntasks=2
#SBATCH --nodes=1
srun python t5.py --max-steps ${MAX_STEPS:-1200}
