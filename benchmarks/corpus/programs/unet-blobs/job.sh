#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --mem-per-cpu=4G
#SBATCH --job-name=seg-unet
#SBATCH --time=06:00:00
#SBATCH --error=seg.%j.err

source ~/envs/seg/bin/activate 2>/dev/null || true
nvidia-smi 2>/dev/null
python -m segment "$@"
