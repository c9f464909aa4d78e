"""Benchmarks say what they measure, and wrong arguments end in one line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(words: str) -> subprocess.CompletedProcess[str]:
    name, *rest = words.split()
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *rest]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_help(name: str) -> None:
    """Also outside the lab, and without what only the run needs."""
    done = run(f"{name} --help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {name}.py"), done.stderr
    (about,) = ast.get_docstring(ast.parse((BENCHMARKS / f"{name}.py").read_text())).splitlines()[:1]
    assert about in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("policies --calibrations c99", "there is no 'c99'; there are: c01, "),
        ("policies --executors magic", "there is no 'magic'; there are: skip, "),
        ("policies --noise nan", "'nan': must be numbers from 0 to 3"),
        ("policies --noise 0.1,x", "must be numbers from 0 to 3"),
        ("policies --samples 0", "'0': must be a whole number from 1 up"),
        ("replay --policies fifo", "there is no 'fifo'; there are: simple, "),
        ("replay --parts some", "there is no 'some'; there are: replays, errors"),
        ("hindsight --calibration c99", "invalid choice: 'c99'"),
        ("hindsight --tries -5", "must be a whole number from 0 up"),
        ("report --runs 5", "--runs 5: must be a whole number from 1000 up"),
        ("simulate --fast", "unrecognized arguments: --fast"),
        ("tune --fast", "unrecognized arguments: --fast"),
        ("align http://localhost", "a URL needs a MODEL"),
    ],
)
def test_wrong_arguments_are_refused(words: str, message: str) -> None:
    done = run(words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
