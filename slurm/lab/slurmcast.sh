#!/bin/bash
# Install and run slurmcast in the lab as a site would by hand (docs/installation.md), from the project's own files.
# usage: slurmcast.sh install|start|stop|kill [daemon|agent]...
set -euo pipefail
LOG=/var/log/slurmcast
run_as() { local user=$1; shift; setsid runuser -u "$user" -- "$@" >> "$LOG/$NAME.log" 2>&1 < /dev/null & echo $! > "/run/$NAME.pid"; }

install() {
  local unit=$PROJECT_DIR/systemd
  systemd-tmpfiles --create "$unit/tmpfiles.d/slurmcast.conf"
  if ! mountpoint -q /run/slurmcast/spool; then
    mount -t tmpfs slurmcast /run/slurmcast/spool -o "$(sed -n 's/^Options=//p' "$unit/run-slurmcast-spool.mount")"
    systemd-tmpfiles --create "$unit/tmpfiles.d/slurmcast.conf" # again: owner and ACL of the mounted folder
  fi
  mkdir -p /etc/slurmcast $LOG
  ln -sf "$PROJECT_DIR/.venv/bin/slurmcast" /usr/bin/
  [ -e /etc/slurmcast/slurmcast.toml ] || cp "${LAB_TOML:-$PROJECT_DIR/slurm/lab/slurmcast.toml}" /etc/slurmcast/slurmcast.toml
}

start() {
  NAME=$1
  case $NAME in
    daemon) run_as slurmcast slurmcast serve ;;
    agent) run_as slurmcast-agent slurmcast agent ;;
  esac
}

# The service itself is the child of runuser.
signal() { local pid; pid=$(cat "/run/$2.pid" 2> /dev/null) || return 0; pkill "-$1" -P "$pid" || true; while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done; rm -f "/run/$2.pid"; }

action=${1:-}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- daemon agent
case $action in
  install) install ;;
  start) for name in "$@"; do start "$name"; done ;;
  stop) for name in "$@"; do signal TERM "$name"; done ;;
  kill) for name in "$@"; do signal KILL "$name"; done ;;
  *) echo "usage: slurmcast.sh install|start|stop|kill [daemon|agent]..." >&2; exit 2 ;;
esac
