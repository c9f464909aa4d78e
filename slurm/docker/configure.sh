#!/bin/bash
# Set slurmcast up in the cluster's volumes, before slurmctld starts: hook, partitions, accounts, the users' folders. Doing it
# again changes nothing. Runs in the container slurmcast-setup, with this repository at /slurmcast.
set -euo pipefail
files=/slurmcast/slurm/docker/conf
cd /etc/slurm

install -m 644 /slurmcast/job_submit_lua/*.lua $files/slurmcast.conf .
if ! grep -qx 'Include /etc/slurm/slurmcast.conf' slurm.conf; then
  for key in $(sed -n 's/^\([A-Za-z]*\)=.*/\1/p' slurmcast.conf | grep -vE '^(NodeSet|PartitionName)$'); do
    sed -i "s/^$key=/#&/I" slurm.conf
  done
  sed -i '/^PartitionName=/s/ Default=YES//' slurm.conf
  echo 'Include /etc/slurm/slurmcast.conf' >> slurm.conf
fi
touch gres.conf
grep -qF "$(head -n 1 $files/gres.conf)" gres.conf || cat $files/gres.conf >> gres.conf

has() { [ -n "$(sacctmgr -n show "$1" "$2" format="$1")" ]; }
for try in $(seq 60); do
  if sacctmgr -n show cluster > /dev/null 2>&1; then break; fi
  [ "$try" -lt 60 ] || { sacctmgr show cluster; echo "configure.sh: slurmdbd does not answer" >&2; exit 1; }
  sleep 1
done
cluster=$(sed -n 's/^ClusterName=//p' slurm.conf)
has cluster "$cluster" || sacctmgr -i add cluster "$cluster"
has account research || sacctmgr -i add account research
has user alice || sacctmgr -i add user alice,bob account=research
has user slurmcast-agent || sacctmgr -i add user slurmcast-agent account=research adminlevel=operator

for user in alice bob; do
  install -d -o $user -g $user /data/$user
  [ -d /data/$user/jobs ] || { cp -r /slurmcast/demo/jobs /data/$user/ && chown -R $user:$user /data/$user/jobs; }
done
