#!/bin/bash
#SBATCH --job-name=rbm
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --constraint=cuda
#SBATCH --export=ALL

export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
python rbm.py "$@" 2>&1
