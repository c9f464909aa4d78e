#!/bin/bash
#SBATCH --job-name=mlm
#SBATCH --gres=gpu:1
#SBATCH --time=3-00:00:00
#SBATCH --mem=64G
#SBATCH --output=%x-%j.log
CONFIG=${CONFIG:-mini}
python pretrain.py --model $CONFIG "$@"
