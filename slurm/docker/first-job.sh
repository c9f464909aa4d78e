#!/bin/bash
# Submit one of the demo's jobs and explain it as soon as slurmcast has decided.     usage: first-job [WORK [SBATCH-OPTION...]]
set -euo pipefail
work=${1:-vit-cifar}
[ $# = 0 ] || shift
cd "/data/$(id -un)/jobs/$work"
for _ in $(seq 60); do # the workers may still be on their way
  [ "$(sinfo -h -p a100,a6000 -o %n 2> /dev/null | wc -l)" -lt 2 ] || break
  sleep 0.5
done
scripts=(*.sbatch *.slurm *.sh)
for script in "${scripts[@]}"; do [ ! -e "$script" ] || break; done
job=$(sbatch --parsable -o "/data/$(id -un)/%j.out" -t 10 "$@" "$script")
echo "Submitted batch job $job"
for _ in $(seq 60); do
  if slurmcast explain "$job" --json 2> /dev/null | grep -q '"decision": {'; then exec slurmcast explain "$job"; fi
  sleep 0.5
done
exec slurmcast explain "$job"
