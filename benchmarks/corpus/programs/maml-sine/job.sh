#!/bin/bash
#SBATCH -J maml
#SBATCH --gres=gpu:1
#SBATCH --time=04:00:00
#SBATCH --mem=8000M
META_LR=0.002
python maml.py $META_LR "$@"
