#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH -c 6
python -u ddpm.py train.steps=${STEPS:-5000} model=unet-small
