#!/bin/sh
#SBATCH --gres=gpu:1
# usage: sbatch gan.sh --niter 50
exec python dcgan.py --dataset celeba64 --workers 2 "$@"
