#!/bin/bash
# Make the lab's root: Debian 13 with Slurm 26.05 (from Debian forky), MariaDB, munge, the lab's users, and a pyslurm
# wheel for PYTHON that is built against that Slurm. Debian and PyPI packages only; the host needs debootstrap and gcc.
# usage: setup.sh [PYTHON]           cached in $SLURMCAST_CACHE (default /var/cache/slurmcast); does nothing when done
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PYTHON=${1:-python3}
PYSLURM=25.11.2
[ "$(id -u)" = 0 ] || die "must run as root (it makes a chroot with debootstrap)"
mkdir -p "$CACHE_DIR" "$WHEELS"
exec 9> "$CACHE_DIR/setup.lock"
flock -w 900 9 || die "another setup has held $CACHE_DIR/setup.lock for 15 minutes"

say() { echo "[lab setup ${SECONDS}s] $*"; }
in_root() {
  timeout 600 chroot "$BUILD" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}
# Run a step with its output in a log that is shown when the step fails.
logged() {
  local log=$CACHE_DIR/setup.$1.log; shift
  "$@" > "$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $* (whole log: $log)"; }
}

make_root() {
  local mirror
  mirror=$(awk '/^URIs:/ {print $2; exit} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)
  mirror=${mirror:-http://deb.debian.org/debian}
  if ! command -v debootstrap > /dev/null; then
    logged apt-update timeout 600 apt-get update -qq
    logged apt-install timeout 600 apt-get install -y -qq --no-install-recommends debootstrap
  fi
  BUILD=$(mktemp -d "$CACHE_DIR/building.XXXXXX")
  trap 'umount -R "$BUILD"/{proc,dev} 2> /dev/null; rm -rf --one-file-system "$BUILD"' EXIT
  chmod 755 "$BUILD"
  logged debootstrap timeout 600 debootstrap --variant=minbase trixie "$BUILD" "$mirror"
  say "Debian 13 root"
  printf '#!/bin/sh\nexit 101\n' > "$BUILD/usr/sbin/policy-rc.d" # no service may start in the chroot
  chmod +x "$BUILD/usr/sbin/policy-rc.d"
  cp /etc/resolv.conf /etc/hosts "$BUILD/etc/"
  cp -r /etc/apt/apt.conf.d/*proxy* "$BUILD/etc/apt/apt.conf.d/" 2> /dev/null || true
  echo "deb $mirror forky main" > "$BUILD/etc/apt/sources.list.d/forky.list"
  printf '%s\n' 'Package: *' 'Pin: release n=forky' 'Pin-Priority: 50' '' \
    'Package: src:slurm-wlm src:hwloc' 'Pin: release n=forky' 'Pin-Priority: 600' > "$BUILD/etc/apt/preferences.d/forky"
  logged root-update in_root apt-get -o Acquire::Check-Valid-Until=false update -qq
  # The libraries in the last line serve the host's Python, which the lab mounts: its modules need them.
  logged root-install in_root apt-get install -y -qq --no-install-recommends slurmctld slurmd slurmdbd slurm-client \
    slurm-wlm-basic-plugins slurm-wlm-mysql-plugin libslurm-dev munge mariadb-server faketime acl procps iproute2 make git \
    lua5.1 lua5.4 ca-certificates \
    libssl3t64 libffi8 libsqlite3-0 libbz2-1.0 liblzma5 libreadline8t64 libncursesw6 libexpat1 zlib1g libgomp1 libstdc++6
  in_root apt-get clean > /dev/null
  say "$(in_root slurmctld -V)"
  for user in alice bob; do in_root useradd --create-home --shell /bin/bash "$user"; done
  for user in slurmcast slurmcast-agent; do in_root useradd --system --home-dir /var/lib/$user --create-home "$user"; done
  # Filled once here, so that a cluster starts with an empty but ready database.
  logged mariadb in_root mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/slurm-mysql \
    --auth-root-authentication-method=socket --skip-test-db
  mv "$BUILD" "$ROOT"
  trap - EXIT
  rm -rf --one-file-system "$CACHE_DIR"/building.* # what an interrupted setup left
}

# PyPI's pyslurm 25.11 wants headers that say 25.11: show it a copy of 26.05's that does, and the compatibility layer that
# 26.05's own headers have. See docs/lab.md.
make_wheel() {
  local include version
  version=$("$PYTHON" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
  compgen -G "$WHEELS/pyslurm-$PYSLURM-$version-*.whl" > /dev/null && return
  include=$(mktemp -d)
  cp -r "$ROOT/usr/include/slurm" "$include/"
  sed -i 's/^#define SLURM_VERSION_NUMBER .*/#define SLURM_VERSION_NUMBER 0x190b02/' "$include/slurm/slurm_version.h"
  printf '[build_ext]\nparallel=%s\n' "$(nproc)" > "$include/extra.cfg"
  export DIST_EXTRA_CONFIG=$include/extra.cfg SLURM_INCLUDE_DIR=$include PYSLURM_BUILD_JOBS=$(nproc) \
    SLURM_LIB_DIR=$ROOT/usr/lib/x86_64-linux-gnu \
    LDFLAGS="-Wl,-rpath,/usr/lib/x86_64-linux-gnu/slurm-wlm -Wl,--allow-shlib-undefined" \
    CFLAGS="-O0 -g0 -w -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf \
-DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=2007"
  logged pyslurm timeout 600 "$PYTHON" -m pip wheel -q --no-deps --no-binary pyslurm -w "$WHEELS" "pyslurm==$PYSLURM"
  rm -rf "$include"
  say "pyslurm $PYSLURM wheel for $version"
}

[ -d "$ROOT" ] || make_root
make_wheel
