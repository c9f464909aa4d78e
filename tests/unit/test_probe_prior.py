"""The estimate before any probe."""

from __future__ import annotations

import pytest

from slurmcast.model import Interval, Source
from slurmcast.probe import prior

POWER = {"a100": 300.0, "a6000": None}


def test_time_is_a_share_of_the_limit_and_energy_that_of_the_power() -> None:
    a100, a6000 = prior(36_000, {"a100": 2, "a6000": 4}, POWER)
    assert a100.time_s == a6000.time_s == Interval(1800, 14_400, 36_000)
    assert a100.energy_kwh is not None
    assert a100.energy_kwh.p50 == pytest.approx(4 * 0.3 * 2)
    assert a6000.energy_kwh is None
    assert (a100.source, a100.gpus, a6000.gpus) == (Source.PRIOR, 2, 4)


def test_shared_gpus_have_no_energy() -> None:
    (estimate,) = prior(3600, {"a100": 1}, POWER, shared=True)
    assert estimate.time_s
    assert estimate.energy_kwh is None


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_nothing_is_known(limit: int | None) -> None:
    (estimate,) = prior(limit, {"a100": 1}, POWER)
    assert (estimate.time_s, estimate.energy_kwh, estimate.source) == (None, None, Source.UNKNOWN)


def test_a_partition_without_power_has_a_time() -> None:
    (estimate,) = prior(60, {"other": 1}, POWER)
    assert estimate.time_s
    assert estimate.energy_kwh is None
