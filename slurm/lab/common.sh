# Shared by root.sh, setup.sh and lab: where the cached root lies, and how steps are logged. Sourced, not run.
LAB_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT_DIR=$(realpath "$LAB_DIR/../..")
CACHE_DIR=${SLURMCAST_CACHE:-/var/cache/slurmcast}
# A changed recipe makes a new root; the old one can be deleted at any time.
ROOT=$CACHE_DIR/root-$(sha256sum "$LAB_DIR/root.sh" | cut -c1-12)
WHEELS=$ROOT.wheels
die() { echo "lab: $*" >&2; exit 1; }
say() { echo "[lab setup ${SECONDS}s] $*"; }
# Run a step with its output in a log that is shown when the step fails.
logged() {
  local log=$CACHE_DIR/setup.$1.log
  shift
  "$@" > "$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $* (whole log: $log)"; }
}
