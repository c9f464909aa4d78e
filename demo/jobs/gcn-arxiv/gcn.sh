#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH -c 2
cd "$SLURM_SUBMIT_DIR" && python gnn.py --runs 5 --epochs ${EPOCHS:-300}
