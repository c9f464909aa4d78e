#!/bin/bash
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
for game in Breakout; do
  python -u ppo.py --env ALE/${game}-v5 --total-timesteps ${TIMESTEPS:-2000000}
done
