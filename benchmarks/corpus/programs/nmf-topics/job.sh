#!/bin/bash
#SBATCH --job-name=topics
#SBATCH --gres=gpu:1
#SBATCH --nodes=1 --ntasks=1
#SBATCH --time=00:12:00
TOPICS=10
export TOPICS
python topics.py $TOPICS "$@"
