"""Sealed values: what munge's programs say is passed on, and what is no value of ours is refused."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from slurmcast import munge


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_a_missing_munge_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(munge.NoAnswer, match="munge is not installed"):
        munge.seal({})


def test_a_munged_that_hangs_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "munge", "exec sleep 20")
    monkeypatch.setattr(munge, "TIMEOUT_S", 0.2)
    with pytest.raises(munge.NoAnswer, match="hears nothing from munged"):
        munge.seal({})


def test_what_munge_says_is_passed_on(path: Path) -> None:
    program(path, "unmunge", "echo 'STATUS:           15'; exit 15")
    with pytest.raises(munge.MungeError, match="it has expired") as told:
        munge.unseal(b"")
    assert told.type is munge.MungeError  # munge does answer
    program(path, "munge", "echo 'munge: Error: Failed to access socket' >&2; exit 6")
    with pytest.raises(munge.NoAnswer, match="Failed to access socket"):
        munge.seal({})


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"\x00\x01slurm's own payload", "nothing of slurmcast's"),
        (zlib.compress(b"{no json"), "nothing of slurmcast's"),
        (zlib.compress(bytes(munge.MAX_VALUE + 1)), "more than"),
    ],
)
def test_what_is_no_value_of_ours(path: Path, payload: bytes, problem: str) -> None:
    (path / "output").write_bytes(b"STATUS:           0\nUID:              1000\n\n" + payload)
    program(path, "unmunge", f"cat {path}/output")
    with pytest.raises(munge.MungeError, match=problem):
        munge.unseal(b"")


def test_a_value_may_hold_empty_lines(path: Path) -> None:
    value = {"text": "a\n\nUID: 0\n\n"}
    packed = zlib.compress(json.dumps(value).encode(), 0)
    (path / "output").write_bytes(b"STATUS:           0\nUID:              1000\n\n" + packed)
    program(path, "unmunge", f"cat {path}/output")
    assert munge.unseal(b"") == munge.Sealed(1000, value)
