#!/bin/bash
# Make the lab's root: Debian 13 with Slurm 26.05 (from Debian forky), MariaDB, munge and the lab's users. Debian packages
# only; the host needs debootstrap.     usage: root.sh       cached in $SLURMCAST_CACHE; does nothing when done
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] || die "must run as root (it makes a chroot with debootstrap)"
mkdir -p "$CACHE_DIR"
exec 9> "$CACHE_DIR/root.lock"
flock -w 900 9 || die "another setup has held $CACHE_DIR/root.lock for 15 minutes"
[ ! -d "$ROOT" ] || exit 0

in_root() {
  timeout 600 chroot "$BUILD" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

mirror=$(awk '/^URIs:/ {print $2; exit} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' \
  /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)
mirror=${mirror:-http://deb.debian.org/debian}
rm -rf --one-file-system "$CACHE_DIR"/building.* # what an interrupted setup left
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
  lua5.1 lua5.4 ca-certificates systemd-standalone-sysusers systemd-standalone-tmpfiles \
  libssl3t64 libffi8 libsqlite3-0 libbz2-1.0 liblzma5 libreadline8t64 libncursesw6 libexpat1 zlib1g libgomp1 libstdc++6
in_root apt-get clean > /dev/null
say "$(in_root slurmctld -V)"
for user in alice bob; do in_root useradd --create-home --shell /bin/bash "$user"; done
# Filled once here, so that a cluster starts with an empty but ready database.
logged mariadb in_root mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/slurm-mysql \
  --auth-root-authentication-method=socket --skip-test-db
mv "$BUILD" "$ROOT"
trap - EXIT
