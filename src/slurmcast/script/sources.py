"""Reading the submitter's source files, or not (design: least privilege).

Three ways: by the submitter's own process with his rights (:class:`MyFiles`), out of what that process handed over
(:class:`HandedOver`), or by the daemon from disk (:class:`OwnedFiles`). The daemon reads a file only if it is a
regular file that the submitter owns. It follows no link, except those which the administrator placed (owned by root, in
a folder that only root may write, such as ``/home -> /gpfs/home``). Nothing blocks, and at most a fixed number of bytes
is taken.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

MAX_BYTES = 256 * 1024
MAX_PARTS = 64
MAX_LINKS = 8
_OPEN_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """A source file's text. ``path`` is the candidate that was there, absolute."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    """Why no candidate was read, in words for the user."""

    reason: str


class SourceReader(Protocol):
    """Reads the first of several candidate paths (relative ones from ``work_dir``) on behalf of ``uid``."""

    def __call__(self, candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing: ...


def no_sources(candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:  # noqa: ARG001
    """The reader that reads nothing: what the daemon uses unless the admin allows more."""
    return Missing("reading sources is switched off")


class MyFiles:
    """Reads whatever regular file this process may read, and keeps it: for a process of the submitter's own.

    ``taken``: the files read so far by absolute path. Raises nothing. A file larger than ``max_bytes`` is refused as a
    whole, for half a program says little.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.taken: dict[str, bytes] = {}
        self._max_bytes = max_bytes

    def __call__(self, candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:  # noqa: ARG002
        found = _first(candidates, work_dir, self._read)
        if isinstance(found, Found):
            self.taken[found.path] = found.data
        return found

    def _read(self, path: PurePosixPath) -> bytes:
        with _closing(os.open(path, _OPEN_FILE & ~os.O_NOFOLLOW)) as file:
            return _content(file, os.fstat(file), self._max_bytes)


class HandedOver:
    """Reads from ``files``, what the submitter handed over by absolute path, and turns to ``others`` for the rest."""

    def __init__(self, files: Mapping[str, bytes], others: SourceReader = no_sources) -> None:
        self._files, self._others = files, others

    def __call__(self, candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:
        for candidate in candidates:
            path = str(PurePosixPath(work_dir) / candidate)
            if path in self._files:
                return Found(path, self._files[path])
        return self._others(candidates, work_dir, uid)


class OwnedFiles:
    """Reads regular files of one user. Raises nothing: what can't be read is :class:`Missing` with the reason.

    ``max_bytes``: as for :class:`MyFiles`.
    """

    def __init__(self, uid: int, max_bytes: int = MAX_BYTES) -> None:
        self._uid = uid
        self._max_bytes = max_bytes

    def __call__(self, candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:
        if uid != self._uid:
            return Missing("the files of another user")
        return _first(candidates, work_dir, self._read)

    def _read(self, path: PurePosixPath) -> bytes:
        with _folder(path.parent, self._uid) as folder, _closing(os.open(path.name, _OPEN_FILE, dir_fd=folder)) as file:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and status.st_uid != self._uid:
                raise PermissionError(errno.EPERM, "not the submitter's own file")
            return _content(file, status, self._max_bytes)


def _first(candidates: Sequence[str], work_dir: str, read: Callable[[PurePosixPath], bytes]) -> Found | Missing:
    """The first candidate that can be read, else why the last one that is there can't."""
    reason = "no such file"
    for candidate in candidates:
        path = PurePosixPath(work_dir) / candidate
        if not path.is_absolute() or "\0" in str(path):
            reason = "the work directory is not known"
            continue
        try:
            return Found(str(path), read(path))
        except OSError as error:
            if error.errno == errno.ELOOP:
                reason = "behind a symbolic link"
            elif error.errno not in (errno.ENOENT, errno.ENOTDIR):
                reason = error.strerror or str(error)
    return Missing(reason)


def _content(file: int, status: os.stat_result, most: int) -> bytes:
    """All of an open file of at most ``most`` bytes. Raises OSError where it is larger, or no regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(errno.EPERM, "not a regular file")
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes")
    data = b""
    while len(data) < status.st_size and (more := os.read(file, status.st_size - len(data))):
        data += more
    return data


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folder(path: PurePosixPath, uid: int) -> Iterator[int]:
    """An O_PATH descriptor of a folder that is reached through folders of the user or root only."""
    parts = list(path.parts[1:])
    links = 0
    trail = [os.open("/", _OPEN_FOLDER)]  # the root, and every folder down to where we are
    try:
        while parts:
            if len(parts) + len(trail) > MAX_PARTS:
                raise OSError(errno.ENAMETOOLONG, "the path is too deep")
            part = parts.pop(0)
            if part == "..":
                _close_down_to(trail, max(len(trail) - 1, 1))
                continue
            trail.append(os.open(part, _OPEN_FOLDER, dir_fd=trail[-1]))
            status = os.fstat(trail[-1])
            if stat.S_ISLNK(status.st_mode):
                links += 1
                target = _admins_link(trail[-1], trail[-2], links)
                _close_down_to(trail, 1 if target.is_absolute() else len(trail) - 1)
                parts = [*(part for part in target.parts if part != "/"), *parts]
            elif not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder")
            elif status.st_uid not in (0, uid):
                raise PermissionError(errno.EPERM, "inside a folder of another user")
        yield trail[-1]
    finally:
        _close_down_to(trail, 0)


def _admins_link(link: int, folder: int, links: int) -> PurePosixPath:
    """Where a link points to that only root can have made; any other link is refused."""
    above = os.fstat(folder)
    if os.fstat(link).st_uid or above.st_uid or above.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or links > MAX_LINKS:
        raise PermissionError(errno.ELOOP, "behind a symbolic link")
    return PurePosixPath(os.readlink("", dir_fd=link))


def _close_down_to(trail: list[int], kept: int) -> None:
    while len(trail) > kept:
        os.close(trail.pop())
