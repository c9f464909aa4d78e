#!/bin/sh
#SBATCH --job-name=perceptrons
#SBATCH --gres=gpu:1
#SBATCH --time=5
MEMBERS=${1:?members} EPOCHS=${2:?epochs}
shift 2
python vote.py --members "$MEMBERS" --epochs "$EPOCHS" "$@"
