"""The meter's files: markers, what it must not forget, records that wait to be sent. Each is written whole or not."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast import files
from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.meter.markers import MAX_BYTES, NAME
from slurmcast.meter.record import EnergyRecord
from slurmcast.meter.run import Run

log = logging.getLogger("slurmcast.meter")


@dataclass(frozen=True, slots=True)
class Marker:
    """A file that prolog or epilog dropped."""

    path: Path
    key: str
    begins: bool
    at: float
    """When it was written, in Unix seconds."""
    content: bytes


def markers(folder: Path) -> list[Marker]:
    """What lies in the folder, oldest first. Raises OSError where it can't be looked into."""
    found = []
    for path in folder.iterdir():
        if (match := NAME.fullmatch(path.name)) is None:
            continue
        with contextlib.suppress(OSError), path.open("rb") as file:
            at = os.fstat(file.fileno()).st_mtime
            found.append(Marker(path, f"{match[1]}.{match[2]}", match[3] == "begin", at, file.read(MAX_BYTES)))
    return sorted(found, key=lambda marker: (marker.at, not marker.begins))


@dataclass(frozen=True, slots=True)
class Saved:
    """What a meter must find again after it was killed."""

    boot_id: str
    wall_offset: float
    """Unix time less the clock that never jumps, which begins anew at each boot."""
    runs: tuple[Run, ...]


class State:
    """The file with the runs that are followed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "runs.json"

    def save(self, saved: Saved) -> None:
        """Raises OSError."""
        files.replace(self._path, json.dumps(to_json(saved)), durable=False)

    def load(self) -> Saved | None:
        """What was saved; None where nothing was, or nothing of use. Raises OSError."""
        try:
            return from_json(Saved, json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError, CodecError):
            self._path.replace(self._path.with_name("runs.unreadable.json"))
            return None


class Outbox:
    """Records until the daemon has them, one file each, and those that it refused, for the admin to look at.

    Together they have at most ``most_bytes``: the oldest refused ones make room, only then the oldest that wait.
    """

    def __init__(self, folder: Path, most_bytes: float = math.inf, refused_s: float = math.inf) -> None:
        """``refused_s``: how long what was refused is kept. Raises OSError."""
        self.folder, self.refused = folder / "outbox", folder / "refused"
        self._most_bytes, self._refused_s = most_bytes, refused_s
        for each in (self.folder, self.refused):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, record: EnergyRecord) -> None:
        """Raises OSError. What is there stays: a meter that was killed after this may end the same run again."""
        path = self.folder / record.name
        if path.exists():
            return
        self._make_room()
        while True:
            try:
                files.replace(path, json.dumps(to_json(record)))
                return
            except OSError as error:
                refused = _oldest_first(self.refused)
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not refused:
                    raise
                _drop(refused[0], "the disk is full")

    def _make_room(self) -> None:
        refused, waiting = _oldest_first(self.refused), _oldest_first(self.folder)
        excess = sum(file.bytes for file in (*refused, *waiting)) - self._most_bytes
        for file in refused:
            if excess > 0 or time.time() - file.at > self._refused_s:
                _drop(file, "meter.keep_mb" if excess > 0 else "meter.keep_days")
                excess -= file.bytes
        for file in waiting:
            if excess <= 0:
                return
            log.error("%s WAS NEVER REPORTED and is dropped: more waits than meter.keep_mb", file.path.name)
            file.path.unlink(missing_ok=True)
            excess -= file.bytes

    def waiting(self, most: int) -> Iterator[tuple[Path, Any]]:
        """The oldest ``most`` files with their JSON; what is no JSON is set aside."""
        for path in (file.path for file in _oldest_first(self.folder)[:most]):
            try:
                yield path, json.loads(path.read_bytes())
            except FileNotFoundError:  # it had to make room meanwhile
                continue
            except (ValueError, RecursionError):
                self.refuse(path)

    def refuse(self, path: Path) -> None:
        """Set a record aside that will never be taken."""
        self.refused.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.replace(self.refused / path.name)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    at: float
    bytes: int


def _oldest_first(folder: Path) -> list[_File]:
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # sent meanwhile
            if not path.name.startswith("."):
                stat = path.stat()
                found.append(_File(path, stat.st_mtime, stat.st_size))
    return sorted(found, key=lambda file: (file.at, file.path))


def _drop(file: _File, why: str) -> None:
    log.warning("%s, which slurmcastd refused, is removed: %s", file.path.name, why)
    file.path.unlink(missing_ok=True)
