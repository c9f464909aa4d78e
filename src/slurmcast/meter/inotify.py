"""Waiting for files in a folder, by the kernel's inotify (man 7 inotify): the standard library has none."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
from pathlib import Path

IN_CLOSE_WRITE = 0x8


class Watch:
    """Wakes when somebody has written a file in the folder, or has called :meth:`wake`."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._events: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._events < 0 or libc.inotify_add_watch(self._events, os.fsencode(folder), IN_CLOSE_WRITE) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, timeout_s: float) -> None:
        """Until something happens, or the time is over."""
        ready, _, _ = select.select([self._events, self._reading], [], [], max(timeout_s, 0.0))
        for descriptor in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 65536)

    def wake(self) -> None:
        """End the waiting; from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"x")
