#!/bin/bash -l
#SBATCH --job-name=DCGAN
#SBATCH --gres=gpu:1
#SBATCH --ntasks=1 --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --mem=32000

echo "Starting on $(date)"
python dcgan.py --ndf 8 "$@"
echo "Done"
