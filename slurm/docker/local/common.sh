# Shared by setup.sh and cluster: where images and tools are cached. Sourced, not run.
DOCKER_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$DOCKER_DIR/../lab/common.sh"
CONTAINERS=$CACHE_DIR/containers
IMAGES=$CONTAINERS/images
LAB_ROOT=localhost/slurmcast-root:${ROOT##*-}
export CONTAINERS_CONF=$DOCKER_DIR/local/containers.conf
export SLURM_VERSION=26.05 SLURM_IMAGE=localhost/slurmcast-base:26.05 SLURM_UID=64030 SLURMCAST=$PROJECT_DIR
