#!/bin/bash
# Second step of `cluster`, in the new namespaces: podman's service, the containers, the command.
set -euo pipefail
say() { [ -n "${LAB_QUIET:-}" ] || echo "[cluster ${SECONDS}s] $*" >&2; }
podman=(podman --root "$RUN_DIR/storage" --runroot /run/containers --storage-opt "overlay.imagestore=$IMAGES")
mount -t tmpfs tmpfs /run -o mode=755
mount -t tmpfs tmpfs /dev/shm -o mode=1777
ip link set lo up

# The first container shows whether this machine can run any.
if ! trouble=$(timeout 60 "${podman[@]}" run --rm --network=none "$SLURM_IMAGE" true 2>&1); then
  echo "[cluster] this machine can't run containers: $(tail -n 1 <<< "$trouble")" >&2
  exit 77
fi
export DOCKER_HOST=unix:///run/podman.sock
setsid "${podman[@]}" system service --time=0 "$DOCKER_HOST" 2> "$RUN_DIR/podman.log" & # Ctrl-C is not for it
until [ -S /run/podman.sock ]; do sleep 0.05; done

down() {
  local id ids
  trap '' INT TERM
  ids=$(timeout 30 "${podman[@]}" ps --all --quiet --no-trunc) || ids=
  timeout 60 "${podman[@]}" rm --all --force --time 0 > /dev/null 2>&1 || true # so that no cgroup stays behind
  for id in $ids; do rmdir /sys/fs/cgroup/unified/libpod_parent/libpod-"$id" 2> /dev/null || true; done # runc forgets it
  say "gone"
}
trap down EXIT
trap 'exit 130' INT # bash as pid 1 would ignore both
trap 'exit 143' TERM

failed() {
  echo "[cluster] FAILED: $1; the last lines of each container's log:" >&2
  tail -n 5 "$RUN_DIR/podman.log" >&2
  timeout --foreground 30 docker-compose ps --all --format 'table {{.Service}}\t{{.Status}}' >&2
  timeout --foreground 30 docker-compose logs --no-color --tail 15 >&2
}
# In a terminal, docker-compose would be stopped for ever as timeout's background process: hence --foreground, and no terminal to read.
ready() {
  [ "$(timeout --foreground 10 docker-compose exec -T login sinfo -h -N -p a100,a6000 -t idle -o %N | sort -u | wc -l)" = 2 ] &&
    timeout --foreground 10 docker-compose exec -T login slurmcast kappa && timeout --foreground 10 docker-compose exec -T slurmctld test -s /run/slurmcast/lease
}
status=0
timeout --foreground 240 docker-compose up --detach --no-build --pull never > "$RUN_DIR/up.log" 2>&1 || { cat "$RUN_DIR/up.log" >&2; failed "docker-compose up"; status=1; }
say "containers are up"
while [ $status = 0 ] && ! ready < /dev/null > /dev/null 2>&1; do
  [ $SECONDS -lt 240 ] || { failed "the cluster isn't ready"; status=1; }
  sleep 0.5
done
if [ $status = 0 ]; then
  say "ready: a100-1 with 2 stand-in GPUs, a6000-1 with 4"
  "$@" || { status=$?; failed "the command, with status $status"; }
fi
exit $status # as pid 1 of its namespace this ends every process that still runs
