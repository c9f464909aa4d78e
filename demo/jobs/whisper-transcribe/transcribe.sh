#!/bin/bash
#SBATCH --gpus-per-node=1
#SBATCH --ntasks=1
HOURS=${1:?usage: sbatch transcribe.sh HOURS}
python transcribe.py --hours $HOURS --model medium --beam-size 5
