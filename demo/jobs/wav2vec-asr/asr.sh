#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:1
#SBATCH --ntasks-per-node=1
export MASTER_ADDR=$(hostname) MASTER_PORT=29500
srun torchrun --nnodes=2 --nproc_per_node=1 --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT finetune_ctc.py --max-updates ${MAX_UPDATES:-1500}
