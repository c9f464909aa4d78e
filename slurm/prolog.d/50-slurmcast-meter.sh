#!/bin/sh
# slurmcast: tell the meter on this node that a job begins here. Drops one small file, starts no program, waits for nothing and
# always succeeds: a prolog that fails drains the node. Needs PrologFlags=Alloc in slurm.conf (docs/meter.md).
if [ -n "$SLURM_JOB_GPUS$CUDA_VISIBLE_DEVICES" ]; then
  printf '%s\n' "SLURM_CLUSTER_NAME=$SLURM_CLUSTER_NAME" "SLURMD_NODENAME=$SLURMD_NODENAME" \
    "SLURM_JOB_NUM_NODES=$SLURM_JOB_NUM_NODES" "SLURM_JOB_GPUS=$SLURM_JOB_GPUS" "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" \
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" \
    "SLURM_JOB_EXCLUSIVE=$SLURM_JOB_EXCLUSIVE" complete \
    > "${SLURMCAST_METER_MARKERS:-/run/slurmcast-meter}/$SLURM_JOB_ID.${SLURM_JOB_START_TIME:-0}.begin"
fi 2> /dev/null
exit 0
