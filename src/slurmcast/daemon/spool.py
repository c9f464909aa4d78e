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
END = b"end\n"
MAX_FILE = 1024 * 1024
MAX_TIME = 1 << 40
"""Unix seconds; later times are garbage."""
MAX_REJECTED = 200
MAX_REJECTED_BYTES = 16 * 1024 * 1024
HALF_WRITTEN_S = 60
"""Dot files older than this were left by a slurmctld that died while writing."""
SETTLED_S = 2
"""A file without its end that is younger than this may still be being written."""


class SpoolError(ValueError):
    """The file is no complete spool file; the message says what is wrong with it."""


def parse(content: bytes) -> Submission:
    """A spool file's content as a submission. Raises :class:`SpoolError`."""
    fields = _fields(content)
    missing = [name for name in ("uid", "submit_time", "script_size", "script") if name not in fields]
    if missing:
        raise SpoolError(f"field {', '.join(missing)} is missing")
    script, size = fields["script"], _number(fields, "script_size")
    if size < len(script):
        raise SpoolError("field script_size is out of range")
    return Submission(
        uid=_number(fields, "uid", 1 << 32),
        user=_text(fields.get("user", b"")),
        name=_text(fields.get("name", b"")),
        submit_time=_number(fields, "submit_time"),
        script=script,
        script_size=size,
        begin_time=_number(fields, "begin_time") if "begin_time" in fields else 0,
        partition=_text(fields["partition"]) if fields.get("partition") else None,
        work_dir=_text(fields.get("work_dir", b"")),
        argv=tuple(_text(word) for word in _closed(fields.get("argv", b""))),
        array=_text(fields.get("array", b"")),
        environment=dict(_text(e).split("=", 1) for e in _closed(fields.get("environment", b"")) if b"=" in e),
        request={n.removeprefix("request."): _text(v) for n, v in fields.items() if n.startswith("request.")},
    )


def _fields(content: bytes) -> dict[str, bytes]:
    if not content.startswith(MAGIC):
        raise SpoolError("it doesn't begin with 'slurmcast-spool 1'")
    fields: dict[str, bytes] = {}
    at = len(MAGIC)
    while content[at : at + len(END) + 1] != END:
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


def _number(fields: dict[str, bytes], name: str, below: int = MAX_TIME) -> int:
    text = fields[name]
    if not text.isdigit() or len(text) > 20 or int(text) >= below:
        raise SpoolError(f"field {name} is no number in range: {text[:40]!r}")
    return int(text)


def _closed(value: bytes) -> list[bytes]:
    """The items of a list, each closed by a NUL."""
    return value.split(b"\0")[:-1]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class Spool:
    """The spool folder. slurmctld's user writes it, so nothing in it is trusted: only regular files are opened."""

    def __init__(self, folder: Path, rejected: Path) -> None:
        self._folder, self._rejected = folder, rejected
        self._complained: set[str] = set()

    def names(self) -> list[str]:
        """Complete files, oldest first; removes what was left half-written long ago. Raises OSError."""
        found = []
        now = time.time()
        for entry in list(os.scandir(self._folder)):
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not entry.name.startswith("."):
                found.append((info.st_mtime_ns, entry.name))
            elif now - info.st_mtime > HALF_WRITTEN_S:
                self.remove(entry.name)
        return [name for _, name in sorted(found)]

    def submission(self, name: str) -> Submission | None:
        """The submission in a file; None where it has gone, or may not be all there yet. Raises :class:`SpoolError`."""
        content = self.read(name)
        if content is None:
            return None
        try:
            return parse(content)
        except SpoolError:
            if not content.endswith(END) and self._age_s(name) < SETTLED_S:
                return None
            raise

    def read(self, name: str) -> bytes | None:
        """A file's content, None where it has gone. Raises :class:`SpoolError` for no regular file of sane size."""
        try:
            # O_NONBLOCK: opening a FIFO must not wait for a writer.
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SpoolError(f"it can't be opened: {error.strerror}") from None
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise SpoolError("it is no regular file")
            if info.st_size > MAX_FILE:
                raise SpoolError(f"it has {info.st_size} bytes, more than {MAX_FILE}")
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(MAX_FILE + 1)
        finally:
            os.close(handle)

    def _age_s(self, name: str) -> float:
        try:
            return time.time() - (self._folder / name).lstat().st_mtime
        except FileNotFoundError:
            return 0.0

    def remove(self, name: str) -> bool:
        """Remove whatever has that name; whether it is gone."""
        path = self._folder / name
        try:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            self._complain(name, f"can't be removed, do it by hand: {error.strerror}")
            return False
        return True

    def reject(self, name: str, reason: str) -> bool:
        """Set a file aside with the reason beside it; whether it is out of the spool."""
        try:
            self._keep(name, reason)
        except OSError as error:
            self._complain(name, f"can't be set aside ({reason}), trying again: {error.strerror}")
            return False
        if not self.remove(name):
            return False
        log.warning("spool file %s set aside: %s", name, reason)
        return True

    def _keep(self, name: str, reason: str) -> None:
        self._rejected.mkdir(mode=0o750, exist_ok=True)
        try:
            content = self.read(name)
        except SpoolError:
            content = None  # no regular file, or a huge one
        kept = os.fsdecode(os.fsencode(name)[:200])
        if content is not None:
            (self._rejected / kept).write_bytes(content)
        (self._rejected / f"{kept}.reason").write_text(reason + "\n")
        self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        files = [(info.st_mtime, info.st_size, path) for path in self._rejected.iterdir() if (info := path.lstat())]
        count = total = 0
        for _, size, path in sorted(files, reverse=True):
            count, total = count + 1, total + size
            if count > 2 * MAX_REJECTED or total > MAX_REJECTED_BYTES:
                path.unlink(missing_ok=True)

    def _complain(self, name: str, problem: str) -> None:
        """Say it once: every scan of the spool meets the file again."""
        if name not in self._complained:
            self._complained.add(name)
            log.error("spool file %s %s", name, problem)
