#!/bin/bash
# Build a pyslurm wheel against a Slurm of release 25.11 or 26.05.     usage: pyslurm_wheel.sh PYTHON ROOT OUT [PIP-OPTION...]
# ROOT is where Slurm is installed: "/" or a folder; OUT is where the wheel goes.
set -euo pipefail
PYSLURM=25.11.2 SHA256=6e0e4bc639ea3177591b102b77c1dd8df55a9e411ac42ef339a4adb3908cca34
python=$1 root=${2%/} out=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/slurm"

plugins=
for library in "$root"/usr/lib64/slurm/libslurmfull.so "$root"/usr/lib/*/slurm-wlm/libslurmfull.so; do
  [ ! -e "$library" ] || plugins=$(dirname "$library")
done
[ -n "$plugins" ] || { echo "pyslurm_wheel.sh: no libslurmfull.so below $root/usr: is Slurm installed there?" >&2; exit 1; }
if [ -d "$root/usr/include/slurm" ]; then
  cp "$root"/usr/include/slurm/*.h "$work/slurm/"
else # slurm-docker-cluster's images have no headers: take those of the same release from SchedMD
  version=$("$root/usr/sbin/slurmctld" -V | cut -d' ' -f2)
  url=https://download.schedmd.com/slurm/slurm-$version.tar.bz2
  "$python" -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=120).read())' "$url" |
    tar -xj -C "$work/slurm" --strip-components=2 --wildcards '*/slurm/*.h'
  IFS=. read -r major minor micro <<< "${version%%-*}"
  printf '#define SLURM_VERSION_NUMBER 0x%02x%02x%02x\n' "$((10#$major))" "$((10#$minor))" "$((10#$micro))" > "$work/slurm/slurm_version.h"
fi
flags="-O0 -g0 -w"
if grep -q 'VERSION_NUMBER 0x1a05' "$work/slurm/slurm_version.h"; then
  # PyPI's pyslurm 25.11 wants headers that say 25.11: show it 26.05's under that number, with the compatibility layer that
  # they have themselves. See docs/lab.md.
  sed -i 's/^#define SLURM_VERSION_NUMBER .*/#define SLURM_VERSION_NUMBER 0x190b02/' "$work/slurm/slurm_version.h"
  flags+=" -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=2007"
fi
printf '[build_ext]\nparallel=%s\n' "$(nproc)" > "$work/extra.cfg"
printf 'pyslurm==%s --hash=sha256:%s\n' $PYSLURM $SHA256 > "$work/requirements.txt"
DIST_EXTRA_CONFIG=$work/extra.cfg PYSLURM_BUILD_JOBS=$(nproc) SLURM_INCLUDE_DIR=$work SLURM_LIB_DIR=$(dirname "$plugins") \
  LDFLAGS="-Wl,-rpath,${plugins#"$root"} -Wl,--allow-shlib-undefined" CFLAGS=$flags \
  "$python" -m pip wheel -q --no-cache-dir --no-deps --no-binary pyslurm --require-hashes -w "$out" -r "$work/requirements.txt" "$@"
