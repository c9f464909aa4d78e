#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH -J augment
#SBATCH --time=480
#SBATCH --mem=10G
# 1. a conditional GAN learns the few real samples   2. a classifier learns from real and generated ones
python3 augment.py "$@"
