"""Whose state folders are: a file that another user leaves there stops their owner the next time."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from slurmcast.config import Config
from slurmcast.console import Failure


def name_of(uid: int) -> str:
    """The user's name, or the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_of(gid: int) -> str:
    """The same of a group."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def must_be(user: str, command: str) -> None:
    """Raise Failure where another user than ``user`` runs ``command`` (``slurmcast import``)."""
    if (own := name_of(os.geteuid())) != user:
        raise Failure(f"this is to be run as {user}, not as {own}: runuser -u {user} -- {command}")


def must_own_store(config: Config, command: str) -> None:
    """The same for a command that leaves files beside the store, which the daemon and the timer must be able to use.
    Where the store can't be seen, the command itself says so."""
    with suppress(OSError):
        must_be(name_of(config.paths.store.stat().st_uid), command)


def strangers(folder: Path) -> Iterator[tuple[Path, str]]:
    """All under ``folder`` that doesn't belong to its owner, and whose it is. What can't be seen is left out."""
    owner = folder.stat().st_uid
    for where, folders, files in os.walk(folder):
        for path in (Path(where, name) for name in (*folders, *files)):
            with suppress(OSError):  # gone meanwhile
                if (uid := path.lstat().st_uid) != owner:
                    yield path, name_of(uid)
