# Shared by setup.sh and lab: where the cached root lies. Sourced, not run.
LAB_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT_DIR=$(realpath "$LAB_DIR/../..")
CACHE_DIR=${SLURMCAST_CACHE:-/var/cache/slurmcast}
# A changed recipe makes a new root; the old one can be deleted at any time.
ROOT=$CACHE_DIR/root-$(sha256sum "$LAB_DIR/setup.sh" | cut -c1-12)
WHEELS=$CACHE_DIR/wheels
die() { echo "lab: $*" >&2; exit 1; }
