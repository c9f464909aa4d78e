#!/bin/bash
# Second step of `lab`, in the new namespaces: mounts, then the chroot, then the cluster, then the command.
set -euo pipefail
layers=$CACHE_DIR/mnt # the same empty folder for every lab: each has it in a mount namespace of its own
mkdir -p "$layers"
mount -t tmpfs lab "$layers" -o mode=755
mkdir "$layers"/{upper,work,root}
mount -t overlay lab "$layers/root" -o "lowerdir=$ROOT,upperdir=$layers/upper,workdir=$layers/work" ||
  { echo "lab: this kernel has no overlayfs" >&2; exit 1; }
new=$layers/root
mount -t proc proc "$new/proc"
mount --rbind /dev "$new/dev"
mount -t sysfs sysfs "$new/sys" 2> /dev/null || true
mount -t tmpfs tmpfs "$new/dev/shm" -o mode=1777
mount -t tmpfs tmpfs "$new/tmp" -o mode=1777
mount -t tmpfs tmpfs "$new/run" -o mode=755
bind() { mkdir -p "$new$1"; mount --rbind "$1" "$new$1"; }
bind "$PROJECT_DIR"
if [ "$PYTHON_PREFIX" = /usr ]; then # Debian's own Python: only itself and its library, not all of the host's /usr
  touch "$new$PYTHON_EXE"
  mount --bind "$PYTHON_EXE" "$new$PYTHON_EXE"
  bind "$PYTHON_LIB"
else
  bind "$PYTHON_PREFIX"
fi
for folder in $LAB_BINDS; do bind "$folder"; done
# The lab's users must be able to walk to the project and to Python wherever they lie.
for path in "$PROJECT_DIR" "$PYTHON_PREFIX"; do
  while path=$(dirname "$path"); [ "$path" != / ]; do chmod a+x "$new$path"; done
done
ip link set lo up
# Slurm looks up "any address" with AI_ADDRCONFIG, which fails where there is only loopback.
ip link add lab0 type dummy 2> /dev/null || ip link add lab0 type veth peer name lab1
ip address add 192.0.2.1/24 dev lab0
ip link set lab0 up
hostname slurmlab
echo "127.0.0.1 localhost slurmlab" > "$new/etc/hosts"
clean=(env -i "PATH=$PROJECT_DIR/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root LANG=C.UTF-8 "TERM=${TERM:-dumb}"
  "PROJECT_DIR=$PROJECT_DIR" "LAB_DIR=$LAB_DIR" "CI=${CI:-}" SLURMCAST_LAB=1 PYTHONDONTWRITEBYTECODE=1)
while IFS= read -r name; do clean+=("$name=${!name}"); done < <(compgen -v | grep -E '^(LAB|SLURMCAST|DEMO)_[A-Z0-9_]+$' | grep -vE '^LAB_(DIR|CWD|BINDS)$')
set +e
chroot "$new" "${clean[@]}" bash -c '
  cd "$1" 2> /dev/null || cd "$PROJECT_DIR"
  shift
  source "$LAB_DIR/clock.sh"
  if [ "${LAB_CLUSTER:-1}" != 0 ]; then bash "$LAB_DIR/cluster.sh" up || exit 1; fi
  "$@"' lab "$LAB_CWD" "$@"
exit $? # as pid 1 of its namespace this ends every process that still runs in the lab
