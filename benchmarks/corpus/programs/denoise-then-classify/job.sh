#!/bin/bash
#SBATCH --job-name=pretrain-finetune
#SBATCH --gres=gpu:1
#SBATCH --ntasks=1
#SBATCH --time=05:00:00
#SBATCH --output=%x-%j.out

export STAGE1=${STAGE1:-denoise}
echo "stage 1: $STAGE1, stage 2: classify"
python -u main.py --noise 0.5 "$@"
