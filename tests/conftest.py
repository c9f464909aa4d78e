"""Which tests may run beside each other (pytest-xdist): files may, but the lab's cluster is one for all of its tests."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group("lab" if "lab" in item.keywords else item.path.name))
