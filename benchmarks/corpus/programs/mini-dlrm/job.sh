#!/bin/bash
#SBATCH --job-name=dlrm
#SBATCH --nodes=1
#SBATCH --gres=gpu:1
#SBATCH --exclusive
#SBATCH --time=10:00:00

export CUDA_DEVICE_ORDER=PCI_BUS_ID
EXTRA="--arch-sparse-feature-size=16 --print-freq=50"
python dlrm_small.py $EXTRA "$@"
