"""A series that lies in a file, read again when the file has changed."""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

from slurmcast.series import CARBON, Series, SeriesError, read_series

log = logging.getLogger("slurmcast.series")

MAX_FILE = 32 << 20
"""Bytes; a year by the minute has about 15 million."""


def read_file(path: Path, columns: Sequence[str]) -> Series:
    """The table in a file. Raises :class:`slurmcast.series.SeriesError` with what is wrong, but not where."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SeriesError("is no file")
        if status.st_size > MAX_FILE:
            raise SeriesError(f"has more than {MAX_FILE} bytes")
        return read_series(path.read_text("utf-8-sig"), columns)
    except OSError as error:
        raise SeriesError(error.strerror) from None
    except UnicodeDecodeError as error:
        raise SeriesError(str(error)) from None


class SeriesFile:
    """The file that the configuration's ``key`` names. Safe for several threads. ``otherwise`` says in the log what
    holds as long as nothing could be read."""

    def __init__(self, path: Path, key: str, otherwise: str, columns: Sequence[str] = (CARBON,)) -> None:
        self._path, self._key, self._otherwise, self._columns = path, key, otherwise, columns
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._series: Series | None = None
        self._trouble = ""

    def series(self) -> Series | None:
        """What the file holds now; where it can't be read, what it held last, None for nothing yet."""
        with self._lock:
            try:
                status = self._path.stat()
                seen = status.st_ino, status.st_mtime_ns, status.st_size
                if seen != self._seen:
                    self._seen = seen
                    self._series = read_file(self._path, self._columns)
                    self._trouble = ""
            except (OSError, SeriesError) as error:
                self._complain(error)
            return self._series

    def _complain(self, error: Exception) -> None:
        trouble = str(error.strerror if isinstance(error, OSError) else error)
        if trouble != self._trouble:
            rest = "what it held before goes on" if self._series else self._otherwise
            log.error("%s %s: %s; %s", self._key, self._path, trouble, rest)
        self._trouble = trouble
