"""Data centres that may have been the paper's: ``calibrations.json``, found by ``python -m benchmarks.calibrate``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from slurmcast.simulate.synthetic import Parameters

FILE = Path(__file__).with_name("calibrations.json")
DEFAULT = "c11"
"""The one whose worst figure of the Simple rule is closest to the paper's."""


@cache
def calibrations() -> dict[str, Parameters]:
    """Each data centre by its name."""
    sets = json.loads(FILE.read_text())["sets"]
    return {one["name"]: _parameters(one["parameters"]) for one in sets}


def calibration(name: str) -> Parameters:
    """The data centre of that name. Raises ValueError with the names that there are."""
    found = calibrations()
    if name not in found:
        raise ValueError(f"there is no calibration {name!r}; there are: {', '.join(found)}")
    return found[name]


def _parameters(stored: dict[str, float | list[float]]) -> Parameters:
    return Parameters(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})  # type: ignore[arg-type]
