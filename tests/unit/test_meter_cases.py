"""What happens to jobs on GPU nodes, through the stand-in for NVIDIA's library: each case with the right energy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.meter_cases import CASES

MAX_ERROR = 0.01


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    checked = list(CASES[name](tmp_path))
    assert checked
    for check in checked:
        assert check.error <= MAX_ERROR, check
