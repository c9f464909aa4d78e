"""Fixtures that several unit tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmcast.config import AgentConfig, Config, Paths
from slurmcast.store.store import Store
from tests.unit.hook_harness import Hook
from tests.unit.munge_harness import munged_of


@pytest.fixture(scope="module", params=["lua5.1", "lua5.4"])
def lua(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is not installed: apt-get install {name} (or run `make unit`)")
    return path


@pytest.fixture
def hook(lua: str, tmp_path: Path) -> Hook:
    return Hook(lua, tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A configuration whose folders are the test's own, with an agent that changes the queue."""
    paths = Paths(run_dir=tmp_path, state_dir=tmp_path, agent_state_dir=tmp_path)
    return Config(paths=paths, agent=AgentConfig(mode="on"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store of cluster ``lab``."""
    opened = Store(tmp_path / "store.db", "lab")
    yield opened
    opened.close()


@pytest.fixture
def munged() -> Iterator[str]:
    """A munged of the test's own; its socket."""
    with munged_of("munge-test") as process:
        yield process.socket
