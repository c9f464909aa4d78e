#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --job-name=siren_fit
#SBATCH --time=00:20:00
python fit_image.py --omega 20 "$@"
