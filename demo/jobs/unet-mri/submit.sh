#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --ntasks=1
# reviewers asked for full single precision, no TF32
export NVIDIA_TF32_OVERRIDE=0
python train_unet.py $@
