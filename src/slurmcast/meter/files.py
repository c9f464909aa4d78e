"""The meter's files: markers, what it must not forget, records that wait to be sent. Each is written whole or not."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.meter.markers import MAX_BYTES, NAME
from slurmcast.meter.record import EnergyRecord
from slurmcast.meter.run import Run


def write(path: Path, value: Any, durable: bool) -> None:
    """Put ``value`` as JSON at ``path``, all at once; ``durable``: also through a crash of the node. Raises OSError."""
    draft = path.with_name(f".{path.name}")
    with draft.open("w") as file:
        file.write(json.dumps(value))
        if durable:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)


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
        write(self._path, to_json(saved), durable=False)

    def load(self) -> Saved | None:
        """What was saved; None where nothing was, or nothing of use. Raises OSError."""
        try:
            return from_json(Saved, json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, CodecError):
            self._path.replace(self._path.with_name("runs.unreadable.json"))
            return None


class Outbox:
    """Records until the daemon has them, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._refused = folder / "outbox", folder / "refused"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, record: EnergyRecord) -> None:
        """Raises OSError. What is there stays: a meter that was killed after this may end the same run again."""
        path = self.folder / record.name
        if not path.exists():
            write(path, to_json(record), durable=True)

    def waiting(self, most: int) -> Iterator[tuple[Path, Any]]:
        """The oldest ``most`` files with their JSON; what is no JSON is set aside."""
        paths = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        for path in sorted(paths, key=lambda path: path.stat().st_mtime)[:most]:
            try:
                yield path, json.loads(path.read_bytes())
            except ValueError:
                self.refuse(path)

    def refuse(self, path: Path) -> None:
        """Set a record aside that will never be taken."""
        self._refused.mkdir(mode=0o700, exist_ok=True)
        path.replace(self._refused / path.name)
