#!/bin/bash
#SBATCH --gpus=2
#SBATCH --nodes=1
ITERATIONS=${1:-4000}
python -m torch.distributed.run --nproc_per_node 2 train_net.py SOLVER.MAX_ITER=$ITERATIONS --iterations $ITERATIONS
