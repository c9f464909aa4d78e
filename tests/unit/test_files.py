"""What is in the place of a file while another one is written."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurmcast import files
from slurmcast.imports import mark
from slurmcast.imports.mark import Mark


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
