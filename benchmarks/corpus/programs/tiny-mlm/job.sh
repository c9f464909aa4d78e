#!/bin/bash
#SBATCH --job-name=bert-mini
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:1
#SBATCH --time=2-00:00:00
#SBATCH --exclude=node[07-08]

export TOKENIZERS_PARALLELISM=false
export MASK_PROB=0.15
python pretrain.py --model configs/mini.toml "$@"
