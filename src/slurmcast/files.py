"""Files that are written: an error says which, and readers never see half of one."""

from __future__ import annotations

import os
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
