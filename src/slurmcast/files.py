"""Files that are written: an error says which, and readers never see half of one."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError name ``path``: one of a full disk names no file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def replace(path: Path, text: str, durable: bool = True) -> None:
    """Put a file with ``text`` (UTF-8) in the place of ``path``: readers see the old one or the new one, also after a
    full disk and, where it is ``durable``, a power cut. One writer at a time. Raises OSError, which names ``path``."""
    draft = path.with_name(f".{path.name}.new")
    with naming(path):
        try:
            draft.unlink(missing_ok=True)  # of a writer that was killed
            with draft.open("x", encoding="utf-8") as file:
                file.write(text)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def append(path: Path, *lines: str, durable: bool = False) -> None:
    """Put ``lines`` at the end of ``path``: lines of their own, also after one that a crash or a full disk has cut.
    ``durable``: returns when the disk has them."""
    with path.open("a+b") as file:
        if file.tell() and (file.seek(-1, 2), file.read(1))[1] != b"\n":
            file.write(b"\n")
        file.writelines(line.encode() + b"\n" for line in lines)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def write_ahead(database: sqlite3.Connection, wait_s: float) -> None:
    """Let readers of a ``database`` go on while it is written, and a commit outlive kill -9; a power cut may lose the
    last ones. Waits ``wait_s`` seconds for whoever is writing a file that is new: SQLite's own time-out, which covers
    its readers, doesn't, so two that open one at once would be told that it is locked. Raises sqlite3.Error."""
    until = time.monotonic() + wait_s
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)
    database.execute("PRAGMA synchronous=NORMAL")
