#!/bin/bash
#SBATCH --job-name=text-sgd
#SBATCH --gres=gpu:1
#SBATCH --time=1-00:00:00
#SBATCH --comment="baseline for the tickets"

for step in prepare fit; do echo "step: $step"; done
python classify.py "$@"
