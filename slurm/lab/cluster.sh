#!/bin/bash
# Start or stop the lab's Slurm: munged, MariaDB, slurmdbd, slurmctld and a slurmd for each node, on the usual paths of the
# lab's own root. No systemd, no cgroups.       usage: cluster.sh up|down
set -euo pipefail
A100=${LAB_A100:-2x2} A6000=${LAB_A6000:-2x4}
LOG=/var/log/slurm
say() { [ -n "${LAB_QUIET:-}" ] || printf '[lab] %s\n' "$*" >&2; }

# Poll a command until it succeeds, AWAIT real seconds at most; then show the logs and fail.
await() {
  local what=$1 end
  shift
  end=$(($(cut -d. -f1 /proc/uptime) + ${AWAIT:-40})) # /proc/uptime: the kernel's clock, whatever LAB_SPEED is
  until timeout $((10 * ${LAB_SPEED:-1})) "$@" > /dev/null 2>&1; do
    if [ "$(cut -d. -f1 /proc/uptime)" -ge "$end" ]; then
      echo "[lab] FAILED: $what did not come up; the last lines of each log:" >&2
      tail -n 15 $LOG/*.log /var/log/munge/*.log >&2
      exit 1
    fi
    sleep $((${LAB_SPEED:-1})).05 # in the lab's time; about 1 s of real time at most
  done
}

nodes() { local partition=$1 n; for n in $(seq "${2%x*}"); do echo "$partition-$n"; done; }

write_conf() {
  local port=6900 gpu name partition shape
  mkdir -p /etc/slurm /var/spool/slurmd /var/lib/slurm/dev $LOG
  {
    cat << C
ClusterName=lab
SlurmctldHost=slurmlab(127.0.0.1)
SlurmUser=slurm
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/spool/slurmd/%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.%n.pid
SlurmctldLogFile=$LOG/slurmctld.log
SlurmdLogFile=$LOG/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=1000
PriorityWeightPartition=1000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:a6000
AccountingStoreFlags=job_comment,job_script,job_env
KillWait=5
C
    [ "${LAB_HOOK:-1}" = 0 ] || echo JobSubmitPlugins=lua
    [ "${LAB_CAPTURE:-1}" = 0 ] || echo CliFilterPlugins=lua
    if [ "${LAB_SPEED:-1}" != 1 ]; then
      # The time-outs of the messages between the daemons are real work and must not shrink with the clock.
      printf '%s\n' MessageTimeout=$((10 * LAB_SPEED)) SlurmdTimeout=$((300 * LAB_SPEED)) TCPTimeout=$((2 * LAB_SPEED)) \
        SlurmctldTimeout=$((120 * LAB_SPEED)) BatchStartTimeout=$((10 * LAB_SPEED))
    fi
    [ -n "${LAB_SCHED-unset}" ] && echo "SchedulerParameters=${LAB_SCHED-sched_interval=1,bf_interval=1,defer}"
    [ -z "${LAB_CONF:-}" ] || echo "$LAB_CONF"
    for partition in a100 a6000; do
      shape=$([ $partition = a100 ] && echo "$A100" || echo "$A6000")
      for name in $(nodes $partition "$shape"); do
        echo "NodeName=$name NodeHostname=slurmlab NodeAddr=127.0.0.1 Port=$((port++)) CPUs=32 RealMemory=64000" \
          "Feature=$partition Gres=gpu:$partition:${shape#*x} State=UNKNOWN"
      done
    done
    echo "PartitionName=a100 Nodes=a100-[1-${A100%x*}] Default=YES MaxTime=7-0 DefaultTime=60 State=UP"
    echo "PartitionName=a6000 Nodes=a6000-[1-${A6000%x*}] MaxTime=7-0 DefaultTime=60 State=UP"
  } > /etc/slurm/slurm.conf
  # GPUs need device files, or Slurm doesn't tell their numbers to prolog and jobs; nothing opens them.
  for gpu in $(seq 0 15); do ln -sf /dev/null /var/lib/slurm/dev/nvidia"$gpu"; done
  for partition in a100 a6000; do
    shape=$([ $partition = a100 ] && echo "$A100" || echo "$A6000")
    echo "NodeName=$partition-[1-${shape%x*}] Name=gpu Type=$partition File=/var/lib/slurm/dev/nvidia[0-$((${shape#*x} - 1))]"
  done > /etc/slurm/gres.conf
  echo CgroupPlugin=disabled > /etc/slurm/cgroup.conf
  cat > /etc/slurm/slurmdbd.conf << C
DbdHost=localhost
DbdAddr=127.0.0.1
SlurmUser=slurm
AuthType=auth/munge
PidFile=/run/slurm/slurmdbd.pid
LogFile=$LOG/slurmdbd.log
CommunicationParameters=NoInAddrAny
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct_db
C
  chown slurm:slurm /etc/slurm/slurmdbd.conf
  chmod 600 /etc/slurm/slurmdbd.conf
  [ "${LAB_HOOK:-1}" = 0 ] || cp --update "$PROJECT_DIR"/job_submit_lua/*.lua /etc/slurm/
  [ "${LAB_CAPTURE:-1}" = 0 ] || cp --update "$PROJECT_DIR"/slurm/cli_filter/*.lua /etc/slurm/
}

up() {
  local sql=(mariadb --no-defaults -uroot -S /run/mysqld/mysqld.sock)
  mkdir -p $LOG
  systemd-sysusers "$PROJECT_DIR/systemd/sysusers.d/slurmcast.conf" 2> $LOG/sysusers.log
  mkdir -p /run/munge /run/mysqld /run/slurm /var/lib/slurm/ctld
  write_conf
  bash "$LAB_DIR/slurmcast.sh" install
  chmod a+rx /home/alice /home/bob # so that read_sources has something to read
  chown munge: /run/munge
  chown mysql: /run/mysqld
  chown -R slurm: /run/slurm /var/lib/slurm /var/spool/slurmd $LOG
  [ -s /etc/munge/munge.key ] || runuser -u munge -- mungekey --create
  # munged and MariaDB keep real time: only they see their own clock, and fast time would only shorten their time-outs.
  env -u LD_PRELOAD runuser -u munge -- munged --num-threads=4
  env -u LD_PRELOAD setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/slurm-mysql --bind-address=127.0.0.1 \
    --socket=/run/mysqld/mysqld.sock --innodb_buffer_pool_size=64M --innodb_lock_wait_timeout=900 \
    --innodb_flush_log_at_trx_commit=0 --skip-log-bin --loose-innodb_snapshot_isolation=OFF \
    > $LOG/mariadb.log 2>&1 < /dev/null &
  await MariaDB mariadb-admin --no-defaults -uroot -S /run/mysqld/mysqld.sock ping
  "${sql[@]}" -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db; CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY
    'lab'; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1'; CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'lab';
    GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
  runuser -u slurm -- slurmdbd
  await slurmdbd sacctmgr -n -i show cluster
  if [ -z "$(sacctmgr -n show cluster lab format=cluster)" ]; then
    sacctmgr -i add cluster lab
    sacctmgr -i add account research
    sacctmgr -i add user alice,bob account=research
    sacctmgr -i add user slurmcast-agent account=research adminlevel=operator
  fi > $LOG/sacctmgr.log 2>&1
  runuser -u slurm -- slurmctld 2> $LOG/slurmctld.start.log
  await slurmctld bash -c "scontrol ping | grep -q 'is UP'"
  for name in $(nodes a100 "$A100") $(nodes a6000 "$A6000"); do slurmd -N "$name"; done
  await "every slurmd" bash -c "[ \$(sinfo -h -N -t idle -o %N | sort -u | wc -l) = $((${A100%x*} + ${A6000%x*})) ]"
  say "Slurm $(slurmctld -V | cut -d' ' -f2) is up: a100 $A100, a6000 $A6000 (nodes x stand-in GPUs)"
}

down() {
  local pid
  for pid in /run/slurm/slurmd.*.pid /run/slurm/slurmctld.pid /run/slurm/slurmdbd.pid; do
    [ ! -s "$pid" ] || kill "$(cat "$pid")" 2> /dev/null || true
  done
  pkill -x mariadbd || true
  pkill -x munged || true
}

case ${1:-} in up | down) "$1" ;; *) echo "usage: cluster.sh up|down" >&2; exit 2 ;; esac
