#!/bin/bash
#SBATCH -J gcn
#SBATCH --gres=gpu:1
#SBATCH -t 10:00
#SBATCH --mem=4G
ulimit -c 0
python gcn.py "$@"
