"""Which tests may run beside each other (pytest-xdist): files may, but all of the lab's tests share its cluster."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling


class Files(LoadScopeScheduling):
    """Each file's tests on one worker, in order; the lab's are as one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "lab" if file.startswith("tests/lab/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    return Files(config, log)
