#!/bin/bash
#SBATCH --job-name=siamese
#SBATCH -n 1
#SBATCH --gres=gpu:1
#SBATCH --time=1-00

PY=python
$PY siamese.py "$@"
