#!/bin/bash -l
#SBATCH --gpus 1
##SBATCH --gpus 4      # too long in the queue
#SBATCH --mem=24G
TASK=${TASK:-mnli}
python glue.py --task $TASK --num-train-epochs ${NUM_EPOCHS:-2}
