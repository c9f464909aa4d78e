#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --mem=32G
python ncf.py --data /datasets/ml-20m --factors 64 --layers 256 256 128 64 $*
