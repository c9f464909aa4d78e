"""Spool files: read strictly, whatever lies in the folder; nothing blocks, nothing is lost without a reason."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.daemon import spool as spool_module
from slurmcast.daemon.spool import MAX_FILE, Spool, SpoolError, parse
from tests.unit.daemon_harness import spool_file

GOOD = spool_file(
    user=b"alice",
    name=b"caf\xe9",
    begin_time=b"1700000008",
    argv=b"/x/train.sh\0--epochs\0" + b"5\0",
    environment=b"EPOCHS=3\0EMPTY=\0",
    request__tres_per_node=b"gres/gpu:1",
    script=b"#!/bin/bash\nend\n\xff\0",
)


def test_reads_every_field() -> None:
    submission = parse(GOOD)
    assert (submission.uid, submission.user, submission.submit_time) == (1000, "alice", 1700000000)
    assert submission.argv == ("/x/train.sh", "--epochs", "5")
    assert submission.environment == {"EPOCHS": "3", "EMPTY": ""}
    assert submission.request == {"tres_per_node": "gres/gpu:1"}
    assert submission.script == b"#!/bin/bash\nend\n\xff\0"
    assert submission.partition is None
    assert submission.begin_time == 1700000008
    assert submission.complete
    assert submission.name.encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_a_cut_script_is_known_as_cut() -> None:
    assert not parse(spool_file(script=b"abc", script_size=b"4000000")).complete


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "begin"),
        (b"slurmcast-spool 2\nend\n", "begin"),
        (GOOD[:-5], "no field|cut"),
        (GOOD + b"x", "no field|cut"),
        (GOOD.replace(b"uid 4\n1000", b"uid 4\n10x0"), "field uid is no number"),
        (GOOD.replace(b"uid 4\n1000", b"uid 2\n-1"), "field uid is no number"),
        (GOOD.replace(b"uid 4\n1000", b"uid 3\n1_0"), "field uid is no number"),
        (GOOD.replace(b"uid 4\n1000", b"uid 10\n4294967296"), "in range"),
        (GOOD.replace(b"submit_time 10\n1700000000", b"submit_time 20\n99999999999999999999"), "in range"),
        (GOOD.replace(b"uid 4", b"uid 999999999"), "cut"),
        (GOOD.replace(b"uid 4", b"uid 99999999999999999999"), "no field"),
        (spool_file(script=b"abc", script_size=b"2"), "range"),
        (b"slurmcast-spool 1\nuid 4\n1000\nend\n", "submit_time, script_size, script is missing"),
    ],
)
def test_says_what_is_wrong(content: bytes, reason: str) -> None:
    with pytest.raises(SpoolError, match=reason):
        parse(content)


@given(st.integers(0, len(GOOD) - 1))
def test_every_truncation_is_seen(length: int) -> None:
    with pytest.raises(SpoolError):
        parse(GOOD[:length])


@given(st.binary(max_size=200))
def test_garbage_never_raises_anything_else(garbage: bytes) -> None:
    with contextlib.suppress(SpoolError):
        parse(b"slurmcast-spool 1\n" + garbage)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Spool]:
    spool = tmp_path / "spool"
    spool.mkdir()
    return spool, Spool(spool, tmp_path / "rejected")


def test_names_in_order_of_arrival_and_old_halves_removed(folders: tuple[Path, Spool]) -> None:
    path, spool = folders
    for age, name in ((30, "b.job"), (20, "a.job"), (5, ".fresh"), (1000, ".old")):
        (path / name).write_bytes(b"x")
        moment = (path / name).stat().st_mtime - age
        os.utime(path / name, (moment, moment))
    assert spool.names() == ["b.job", "a.job"]
    assert {entry.name for entry in path.iterdir()} == {"a.job", "b.job", ".fresh"}


def test_only_regular_files_of_sane_size_are_opened(folders: tuple[Path, Spool]) -> None:
    path, spool = folders
    (path / "link").symlink_to("/etc/passwd")
    os.mkfifo(path / "fifo")
    (path / "folder").mkdir()
    with (path / "huge").open("wb") as file:
        file.truncate(MAX_FILE + 1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path / "socket"))
    for name in ("link", "fifo", "folder", "huge", "socket"):
        with pytest.raises(SpoolError):
            spool.read(name)
        spool.reject(name, "no")
        assert not (path / name).exists() and not (path / name).is_symlink()
    assert spool.read("gone") is None


def test_a_file_that_may_not_be_all_there_is_left_alone_for_a_moment(folders: tuple[Path, Spool]) -> None:
    path, spool = folders
    (path / "x.job").write_bytes(GOOD[:-9])
    assert spool.submission("x.job") is None
    os.utime(path / "x.job", (1, 1))
    with pytest.raises(SpoolError, match="cut"):
        spool.submission("x.job")
    (path / "whole.job").write_bytes(GOOD)
    assert spool.submission("whole.job") == parse(GOOD)


def test_rejected_files_are_bounded(
    folders: tuple[Path, Spool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spool = folders
    monkeypatch.setattr(spool_module, "MAX_REJECTED", 3)
    for n in range(5):
        (path / f"{n}.job").write_bytes(b"garbage")
        assert spool.reject(f"{n}.job", "why")
        for file in (tmp_path / "rejected").glob(f"{n}.*"):
            os.utime(file, (n, n))
    assert {file.name[0] for file in (tmp_path / "rejected").iterdir()} == {"2", "3", "4"}
    monkeypatch.setattr(spool_module, "MAX_REJECTED_BYTES", 1000)
    (path / "big.job").write_bytes(bytes(990))
    assert spool.reject("big.job", "why")
    assert sum(file.stat().st_size for file in (tmp_path / "rejected").iterdir()) <= 1000
    assert (tmp_path / "rejected/big.job").exists()


def test_what_cannot_be_set_aside_stays_and_is_said_once(
    folders: tuple[Path, Spool], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, spool = folders
    (path / "x.job").write_bytes(b"garbage")
    (tmp_path / "rejected").write_text("no folder")
    assert not spool.reject("x.job", "why")
    assert not spool.reject("x.job", "why")
    assert (path / "x.job").exists() and len(caplog.records) == 1


def test_rejected_files_are_kept_with_the_reason(folders: tuple[Path, Spool], tmp_path: Path) -> None:
    path, spool = folders
    (path / "x.job").write_bytes(b"garbage")
    spool.reject("x.job", "it is garbage")
    assert (tmp_path / "rejected/x.job").read_bytes() == b"garbage"
    assert (tmp_path / "rejected/x.job.reason").read_text() == "it is garbage\n"
    assert spool.names() == []
