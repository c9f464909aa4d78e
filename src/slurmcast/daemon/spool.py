"""Spool files: version 1 of docs/architecture.md, read strictly. What isn't one is set aside with the reason."""

from __future__ import annotations

import logging
import os
import stat
import time
from pathlib import Path

from slurmcast.model import Submission

log = logging.getLogger("slurmcast.spool")

MAGIC = b"slurmcast-spool 1\n"
MAX_FILE = 1024 * 1024
MAX_REJECTED = 200
HALF_WRITTEN_S = 60
"""Dot files older than this were left by a slurmctld that died while writing."""


class SpoolError(ValueError):
    """The file is no complete spool file; the message says what is wrong with it."""


def parse(content: bytes) -> Submission:
    """A spool file's content as a submission. Raises :class:`SpoolError`."""
    fields = _fields(content)
    try:
        script = fields["script"]
        size = int(fields["script_size"])
        submission = Submission(
            uid=int(fields["uid"]),
            user=_text(fields.get("user", b"")),
            name=_text(fields.get("name", b"")),
            submit_time=int(fields["submit_time"]),
            script=script,
            script_size=size,
            begin_time=int(fields.get("begin_time", b"0")),
            partition=_text(fields["partition"]) if "partition" in fields else None,
            work_dir=_text(fields.get("work_dir", b"")),
            argv=tuple(_text(word) for word in _closed(fields.get("argv", b""))),
            array=_text(fields.get("array", b"")),
            environment=dict(_text(e).split("=", 1) for e in _closed(fields.get("environment", b"")) if b"=" in e),
            request={n.removeprefix("request."): _text(v) for n, v in fields.items() if n.startswith("request.")},
        )
    except KeyError as error:
        raise SpoolError(f"field {error} is missing") from None
    except ValueError as error:
        raise SpoolError(f"a number is none: {error}") from None
    if not 0 <= submission.uid < 2**32 or size < len(script):
        raise SpoolError("uid or script_size is out of range")
    return submission


def _fields(content: bytes) -> dict[str, bytes]:
    if not content.startswith(MAGIC):
        raise SpoolError("it doesn't begin with 'slurmcast-spool 1'")
    fields: dict[str, bytes] = {}
    at = len(MAGIC)
    while content[at:] != b"end\n":
        head_end = content.find(b"\n", at)
        name, _, length = content[at : max(head_end, at)].partition(b" ")
        if head_end < 0 or not name or not length.isdigit() or len(length) > 9:
            raise SpoolError(f"at byte {at} stands no field; the file is cut or damaged")
        start, stop = head_end + 1, head_end + 1 + int(length)
        if content[stop : stop + 1] != b"\n":
            raise SpoolError(f"field {_text(name)} is cut")
        fields[_text(name)] = content[start:stop]
        at = stop + 1
    return fields


def _closed(value: bytes) -> list[bytes]:
    """The items of a list, each closed by a NUL."""
    return value.split(b"\0")[:-1]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class Spool:
    """The spool folder. slurmctld's user writes it, so nothing in it is trusted: only regular files are opened."""

    def __init__(self, folder: Path, rejected: Path) -> None:
        self._folder, self._rejected = folder, rejected

    def names(self) -> list[str]:
        """Complete files, oldest first; removes what was left half-written long ago."""
        found = []
        now = time.time()
        for entry in os.scandir(self._folder):
            if entry.name.startswith("."):
                if now - entry.stat(follow_symlinks=False).st_mtime > HALF_WRITTEN_S:
                    self.remove(entry.name)
            else:
                found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [name for _, name in sorted(found)]

    def read(self, name: str) -> bytes | None:
        """A file's content, None where it has gone. Raises :class:`SpoolError` for no regular file of sane size."""
        try:
            # O_NONBLOCK: opening a FIFO must not wait for a writer.
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SpoolError(f"it can't be opened: {error.strerror}") from None
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            os.close(handle)
            raise SpoolError("it is no regular file")
        with os.fdopen(handle, "rb") as file:
            if info.st_size > MAX_FILE:
                raise SpoolError(f"it has {info.st_size} bytes, more than {MAX_FILE}")
            return file.read(MAX_FILE + 1)

    def remove(self, name: str) -> None:
        path = self._folder / name
        try:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("spool file %s can't be removed: %s", name, error.strerror)

    def reject(self, name: str, reason: str) -> None:
        """Set a file aside with the reason beside it, at most the newest ``MAX_REJECTED``."""
        log.warning("spool file %s set aside: %s", name, reason)
        self._rejected.mkdir(mode=0o750, exist_ok=True)
        try:
            content = self.read(name)
        except SpoolError:
            content = None
        if content is not None:
            (self._rejected / name).write_bytes(content)
        (self._rejected / f"{name}.reason").write_text(reason + "\n")
        self.remove(name)
        kept = sorted(self._rejected.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in kept[: -2 * MAX_REJECTED]:
            path.unlink(missing_ok=True)
