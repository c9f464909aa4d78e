#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH -J nerf
scene=lego
python run_nerf.py --config configs/$scene.txt --N_iters=${ITERS:-20000} --no_tf32
