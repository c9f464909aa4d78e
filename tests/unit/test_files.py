"""What is in the place of a file while another one is written."""

from __future__ import annotations

import errno
import resource
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmcast import files
from slurmcast.encoder import VectorCache
from slurmcast.imports import mark
from slurmcast.imports.mark import Mark
from slurmcast.store.store import Store


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Files of this process can't be longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 3])
def test_what_was_there_stays_where_the_new_one_does_not_fit(tmp_path: Path, room: int) -> None:
    path = tmp_path / "page"
    files.replace(path, "old")
    with full_disk(room), pytest.raises(OSError) as error:
        files.replace(path, "new, and longer")
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(path))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    files.replace(path, "new, \N{SNOWMAN}")
    assert path.read_text("utf-8") == "new, \N{SNOWMAN}"


def test_what_a_killed_writer_left_is_in_nobodys_way_and_leads_nowhere(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "page"
    other.write_text("mine")
    (tmp_path / ".page.new").symlink_to(other)
    files.replace(path, "text")
    assert (path.read_text(), other.read_text()) == ("text", "mine")


def test_the_mark_of_an_import_is_named(tmp_path: Path) -> None:
    with full_disk(0), pytest.raises(OSError) as error:
        mark.save(tmp_path / "import.json", Mark(1, 2))
    assert error.value.filename == str(tmp_path / "import.json")


@pytest.mark.parametrize("opened", [lambda path: Store(path, "lab"), VectorCache], ids=["store", "vectors"])
def test_a_new_database_waits_for_whoever_is_writing_it(
    tmp_path: Path, opened: Callable[[Path], Store | VectorCache]
) -> None:
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):  # at once, whatever the timeout
        sqlite3.connect(path, timeout=600).execute("PRAGMA journal_mode=WAL")
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(opened, path)
        with pytest.raises(TimeoutError):
            opening.result(0.2)
        other.execute("ROLLBACK")
        opening.result(30).close()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_that_stays_locked_is_given_up(tmp_path: Path) -> None:
    other, database = (sqlite3.connect(tmp_path / "new.db", isolation_level=None) for _ in range(2))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        files.write_ahead(database, 0.1)
