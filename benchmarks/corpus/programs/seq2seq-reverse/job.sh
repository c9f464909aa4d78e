#!/bin/bash
#SBATCH --job-name=translate
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=36:00:00
#SBATCH --mail-type=END,FAIL

export OMP_PROC_BIND=false
python run_seq2seq.py --vocab-size 32 "$@"
