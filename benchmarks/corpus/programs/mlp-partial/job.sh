#!/bin/bash
#SBATCH --job-name=stream-mlp
#SBATCH --gpus=1
#SBATCH --time=0:30:0
#SBATCH --signal=B:TERM@60

trap 'echo stopped' TERM
python stream.py "$@" &
wait $!
