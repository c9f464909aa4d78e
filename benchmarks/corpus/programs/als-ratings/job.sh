#!/bin/bash -l
#SBATCH --job-name=als-ratings
#SBATCH --account=recsys
#SBATCH --gpus=1
#SBATCH --ntasks=1
#SBATCH --time=0-01:00:00

cd "${SLURM_SUBMIT_DIR:-$PWD}"
python als.py config.json "$@"
