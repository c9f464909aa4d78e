#!/bin/bash
#SBATCH --job-name=centernet
#SBATCH --gres=gpu:1
#SBATCH --time=1-12:00:00
#SBATCH --mem=32G
#SBATCH --open-mode=append

conda activate det 2>/dev/null
python3 -u detect.py --log-every 10 "$@"
