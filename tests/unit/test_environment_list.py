"""The hook and ``predict`` pass on the same variables, or the two would estimate differently."""

from __future__ import annotations

import re
from pathlib import Path

from slurmcast.client import ENVIRONMENT

HOOK = Path(__file__).parents[2] / "job_submit_lua" / "slurmcast.lua"


def test_one_list() -> None:
    block = re.search(r"environment = \{(.*?)\n  \}", HOOK.read_text(), re.DOTALL)
    assert block is not None
    assert tuple(re.findall(r'"(\w+)"', block[1])) == ENVIRONMENT
