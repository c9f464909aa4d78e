#!/bin/bash
#SBATCH -J softmax
#SBATCH --gres=gpu:1
#SBATCH -t 10:00
#SBATCH -o slurm-%x-%j.log

# arguments: passes, images per class, batch, side of an image in pixels
python softmax.py "$@"
