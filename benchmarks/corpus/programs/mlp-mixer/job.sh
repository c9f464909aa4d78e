#!/bin/bash
#
#SBATCH --job-name="mixer test"
#SBATCH --gres=gpu:1
#SBATCH --time=00:30:00
#SBATCH --signal=B:USR1@60

exec python mixer.py seed=11 "$@"
