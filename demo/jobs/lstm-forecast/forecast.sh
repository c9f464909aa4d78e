#!/bin/bash
#SBATCH --gres=gpu:1
python notebook.py
