"""The doctor's checks of this host: munge, folders, the lease."""

from __future__ import annotations

import os
import re
import stat
import time

from slurmcast import munge
from slurmcast.config import Config
from slurmcast.doctor.check import Check, setting
from slurmcast.owners import group_of, name_of, strangers


def check_munge(config: Config) -> Check:
    socket = config.daemon.munge_socket
    try:
        munge.unseal(munge.seal({}, socket), socket)
    except munge.MungeError as error:
        return Check("munge", False, str(error), "systemctl status munge: Slurm and other hosts need it")
    return Check("munge", True, "makes credentials and opens them")


def check_spool(config: Config) -> Check:
    spool = config.paths.spool
    remedy = "enable run-slurmcast-spool.mount and run systemd-tmpfiles --create slurmcast.conf"
    try:
        info = spool.stat()
    except OSError as error:
        return Check("spool", False, f"{spool}: {error.strerror}", remedy)
    owner, group = name_of(info.st_uid), group_of(info.st_gid)
    writer = re.sub(r"\(.*", "", setting("SlurmUser"))
    if owner != writer:
        return Check("spool", False, f"{spool} belongs to {owner}, slurmctld runs as {writer}", remedy)
    if stat.S_IMODE(info.st_mode) & 0o007:
        return Check("spool", False, f"{spool} is open to everybody (mode {stat.S_IMODE(info.st_mode):o})", remedy)
    if not os.path.ismount(spool):
        return Check("spool", False, f"{spool} is no file system of its own and could fill /run", remedy)
    space = os.statvfs(spool)
    free = space.f_bavail / max(space.f_blocks, 1)
    if free < 0.1 or (space.f_files and space.f_favail < 100):
        return Check("spool", False, f"{spool} has {free:.0%} left", "is slurmcastd running and reading it?")
    return Check("spool", True, f"{spool}: {owner}:{group}, {free:.0%} free")


def check_state(config: Config) -> Check:
    """What a command left as another user, root for example, stops the folder's owner."""
    folders = [folder for folder in (config.paths.state_dir, config.paths.agent_state_dir) if folder.is_dir()]
    for folder in folders:
        owner, found = name_of(folder.stat().st_uid), list(strangers(folder))
        if found:
            path, user = found[0]
            more = f", and {len(found) - 1} more aren't {owner}'s" if len(found) > 1 else ""
            detail = f"{path} belongs to {user}, not to {owner}{more}"
            return Check("state", False, detail, f"chown -Rh {owner}: {folder}; run commands as {owner}, not as {user}")
    where = ", ".join(f"{folder}: {name_of(folder.stat().st_uid)}" for folder in folders)
    return Check("state", True, where or "no state folder on this host")


def check_lease(config: Config) -> Check:
    remedy = "start slurmcast-agent; without a fresh lease jobs get no grace and nothing is changed"
    try:
        mode, until, grace = config.paths.lease.read_text().split()
        left = int(until) - time.time()
    except OSError as error:
        return Check("lease", False, f"{config.paths.lease}: {error.strerror}", remedy)
    except ValueError:
        return Check("lease", False, f"{config.paths.lease} is no lease", remedy)
    if left < 0:
        return Check("lease", False, f"ran out {-left:.0f} s ago", remedy)
    folder = config.paths.lease.parent
    if not os.statvfs(folder).f_bavail:
        full = f"good for {left:.0f} s, but {folder} is full: the agent can't renew it"
        return Check("lease", False, full, f"make room there: df {folder}")
    return Check("lease", True, f"mode {mode}, grace {grace} s, good for {left:.0f} s")
