"""A service that is started as the wrong user says where, and as whom to start it."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurmcast.config import Config, MeterConfig, Paths
from slurmcast.daemon import service as daemon
from slurmcast.meter import service as meter

NOBODY = 65534


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[Path]:
    """A folder that is another user's, for a process without rights; its umask and limits are given back."""
    if os.geteuid():
        pytest.skip("needs root")
    umask, limits = os.umask(0o077), resource.getrlimit(resource.RLIMIT_NOFILE)
    tmp_path.chmod(0o700)
    os.seteuid(NOBODY)
    yield tmp_path / "state"
    os.seteuid(0)
    os.umask(umask)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(
    ("serve", "told"), [(daemon.serve, "run it as the user of slurmcastd"), (meter.serve, "run it as root")]
)
def test_the_wrong_user(
    as_nobody: Path, caplog: pytest.LogCaptureFixture, serve: Callable[[Config], int], told: str
) -> None:
    assert serve(Config(paths=Paths(state_dir=as_nobody), meter=MeterConfig(state_dir=as_nobody))) == 1
    assert f"can't run: {as_nobody}: Permission denied; {told}" in caplog.text
