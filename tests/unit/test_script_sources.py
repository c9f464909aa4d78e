"""Reading the submitter's files: what is read, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmcast.script.sources import Found, HandedOver, Missing, MyFiles, OwnedFiles, no_sources

ME = os.getuid()
OTHER = ME + 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_bytes(b"epochs = 3\n")
    (tmp_path / "pkg" / "mod.py").write_bytes(b"x")
    return tmp_path


def ask(folder: Path, *candidates: str, max_bytes: int = 1000) -> Found | Missing:
    return OwnedFiles(ME, max_bytes)(candidates, str(folder), ME)


def test_reads_the_first_candidate_that_is_there(folder: Path) -> None:
    assert ask(folder, "no.py", "train.py", "pkg/mod.py") == Found(str(folder / "train.py"), b"epochs = 3\n")
    assert ask(folder, str(folder / "pkg" / "mod.py")) == Found(str(folder / "pkg" / "mod.py"), b"x")
    assert ask(folder, "pkg/../train.py") == Found(str(folder / "pkg" / ".." / "train.py"), b"epochs = 3\n")


def test_no_sources_reads_nothing(folder: Path) -> None:
    assert isinstance(no_sources(["train.py"], str(folder), ME), Missing)


def test_says_why_nothing_was_read(folder: Path) -> None:
    assert ask(folder, "no.py") == Missing("no such file")
    assert ask(folder, "train.py/x") == Missing("no such file")
    assert ask(folder, "train.py", max_bytes=3) == Missing("larger than 3 bytes")
    assert ask(folder, "pkg") == Missing("not a regular file")
    assert ask(folder, "/dev/null") == Missing("not a regular file")
    assert ask(folder, "a\0b") == Missing("the work directory is not known")
    assert ask(Path(), "train.py") == Missing("the work directory is not known")
    assert ask(folder, "/".join(["x"] * 500)) == Missing("the path is too deep")
    assert OwnedFiles(ME)(["train.py"], str(folder), OTHER) == Missing("the files of another user")


def test_a_pipe_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    assert ask(folder, "pipe.py") == Missing("not a regular file")


def test_no_link_of_the_user_is_followed(folder: Path) -> None:
    (folder / "link.py").symlink_to("train.py")
    assert ask(folder, "link.py") == Missing("behind a symbolic link")
    (folder / "dir").symlink_to("pkg")
    folder.chmod(0o777)  # a folder that others may write, so that the link may be anybody's, even if root owns it
    assert ask(folder, "dir/mod.py") == Missing("behind a symbolic link")


@pytest.mark.skipif(ME != 0, reason="needs root to make files of several owners")
class TestOwners:
    def test_only_the_submitter_s_own_files(self, folder: Path) -> None:
        os.chown(folder / "train.py", OTHER, -1)
        assert ask(folder, "train.py") == Missing("not the submitter's own file")
        assert OwnedFiles(OTHER)(["train.py"], str(folder), OTHER) == Found(str(folder / "train.py"), b"epochs = 3\n")

    def test_only_below_folders_of_the_submitter_or_root(self, folder: Path) -> None:
        os.chown(folder / "pkg", OTHER, -1)
        assert ask(folder, "pkg/mod.py") == Missing("inside a folder of another user")

    def test_the_admin_s_links_are_followed(self, folder: Path) -> None:
        (folder / "home").symlink_to("pkg")
        (folder / "abs").symlink_to(folder / "home")
        assert ask(folder, "abs/mod.py") == Found(str(folder / "abs" / "mod.py"), b"x")
        (folder / "loop").symlink_to("loop")
        assert ask(folder, "loop/mod.py") == Missing("behind a symbolic link")

    def test_a_user_s_link_is_not(self, folder: Path) -> None:
        (folder / "dir").symlink_to("pkg")
        os.chown(folder / "dir", OTHER, -1, follow_symlinks=False)
        assert OwnedFiles(OTHER)(["dir/mod.py"], str(folder), OTHER) == Missing("behind a symbolic link")


def test_no_descriptor_is_left_open(folder: Path) -> None:
    (folder / "l").symlink_to("pkg")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("train.py", "no.py", "l/mod.py", "pkg", "/dev/null", "/".join(["x"] * 500)):
        ask(folder, path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_ones_own_process_reads_what_it_may_read(folder: Path) -> None:
    """The user's rights are the kernel's business: links, other people's files and folders are read like any."""
    mine = MyFiles(max_bytes=12)
    (folder / "link.py").symlink_to("pkg/mod.py")
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "pipe.py")
    (folder / "big.py").write_bytes(b"x" * 13)
    cases: dict[str, Found | Missing] = {
        "train.py": Found(str(folder / "train.py"), b"epochs = 3\n"),
        "link.py": Found(str(folder / "link.py"), b"x"),
        "no.py": Missing("no such file"),
        "train.py/x": Missing("no such file"),
        "pipe.py": Missing("not a regular file"),
        "pkg": Missing("not a regular file"),
        "/dev/zero": Missing("not a regular file"),
        "big.py": Missing("larger than 12 bytes"),
        "loop.py": Missing("behind a symbolic link"),
        "a\0b": Missing("the work directory is not known"),
        "x" * 300: Missing("File name too long"),
    }
    assert {name: mine([name], str(folder), OTHER) for name in cases} == cases
    assert mine(["train.py"], "", ME) == Missing("the work directory is not known")
    assert mine.taken == {found.path: found.data for found in cases.values() if isinstance(found, Found)}


def test_what_was_handed_over_is_told_by_its_path(folder: Path) -> None:
    handed_over = {"/home/a/train.py": b"1", "/lib/x.py": b"2", "train.py": b"3"}
    read = HandedOver(handed_over, OwnedFiles(ME))
    assert read(["no.py", "train.py"], "/home/a", ME) == Found("/home/a/train.py", b"1")
    assert read(["/lib/x.py"], "/home/a", ME) == Found("/lib/x.py", b"2")
    assert read(["train.py"], str(folder), ME) == Found(str(folder / "train.py"), b"epochs = 3\n")
    assert isinstance(HandedOver(handed_over)(["train.py"], str(folder), ME), Missing)
