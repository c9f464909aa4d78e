#!/bin/bash
#SBATCH --job-name=mlp
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=00:30:00
#SBATCH --output=mlp-%j.out

set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
echo "job ${SLURM_JOB_ID:-none} on $(hostname)"
python train.py --lr 0.004 "$@"
