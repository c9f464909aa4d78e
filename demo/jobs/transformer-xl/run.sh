#!/bin/bash
#SBATCH --gres=gpu:1
python train.py --cuda --data /datasets/wikitext-103 --dataset wt103 --n_layer 16 --d_model 512 --n_head 8 --tgt_len 192 --mem_len 192 "$@"
