#!/bin/sh
# slurmcast: tell the meter on this node that a job is over here. Drops one small file, starts no program, waits for nothing and
# always succeeds: an epilog that fails drains the node (docs/meter.md).
if [ -n "$SLURM_JOB_GPUS$CUDA_VISIBLE_DEVICES" ]; then
  printf 'complete\n' > "${SLURMCAST_METER_MARKERS:-/run/slurmcast-meter}/$SLURM_JOB_ID.${SLURM_JOB_START_TIME:-0}.end"
fi 2> /dev/null
exit 0
