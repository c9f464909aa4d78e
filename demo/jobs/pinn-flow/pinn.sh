#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
# Double check: single precision without TF32, the residual needs it
python pinn.py --iterations $1
