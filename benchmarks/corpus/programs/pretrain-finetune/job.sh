#!/bin/bash
#SBATCH --job-name=pretrain+finetune
#SBATCH --gres=gpu:1
#SBATCH --time=1-00:00:00
#SBATCH --mem=20G
set -euo pipefail

# stage 1 and 2 in one process, so that the encoder needn't be written to disk
python two_stage.py "$@"
