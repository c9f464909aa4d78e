#!/bin/bash
#SBATCH --job-name=kd
#SBATCH --gres=gpu:1
#SBATCH --time=07:00:00
#SBATCH --cpus-per-task=4
T=4
python distill.py --T $T --alpha 0.7 "$@"
