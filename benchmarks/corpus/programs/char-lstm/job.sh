#!/bin/bash
#SBATCH --job-name=char-lstm
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=08:00:00
#SBATCH --output=char-%j.log

python main.py --cell lstm --dropout 0.1 "$@"
