#!/bin/bash
#SBATCH --job-name=distill
#SBATCH --gres=gpu:1
#SBATCH --time=00:40:00
#SBATCH --output=distill-%j.txt
set -u

WEIGHTS=$(mktemp -d)
trap 'rm -rf "$WEIGHTS"' EXIT
python teacher.py --save "$WEIGHTS/teacher.pt" "$@"
python student.py --teacher "$WEIGHTS/teacher.pt" "$@"
