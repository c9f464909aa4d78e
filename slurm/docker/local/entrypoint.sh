#!/bin/bash
# usage: docker-entrypoint.sh mysql|slurmdbd|slurmctld|COMMAND...
set -euo pipefail
await() { # HOST PORT
  for _ in $(seq 300); do
    if (exec 3<> "/dev/tcp/$1/$2") 2> /dev/null; then return; fi
    sleep 0.2
  done
  echo "docker-entrypoint.sh: $1:$2 does not answer" >&2
  exit 1
}
munge() { runuser -u munge -- munged --num-threads=4; }

case ${1:-} in
  mysql)
    install -d -o mysql /run/mysqld
    printf '%s\n' 'CREATE DATABASE IF NOT EXISTS slurm_acct_db;' "CREATE USER IF NOT EXISTS slurm@'%' IDENTIFIED BY 'password';" \
      "GRANT ALL ON slurm_acct_db.* TO slurm@'%';" > /run/mysqld/init.sql
    exec mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock --init-file=/run/mysqld/init.sql \
      --innodb_buffer_pool_size=64M --innodb_lock_wait_timeout=900 --loose-innodb_snapshot_isolation=OFF ;;
  slurmdbd) munge; await mysql 3306; exec runuser -u slurm -- slurmdbd -D ;;
  slurmctld) munge; await slurmdbd 6819; exec runuser -u slurm -- slurmctld -i -D ;;
  *) exec "$@" ;;
esac
