"""The estimate before any run."""

from __future__ import annotations

import pytest

from slurmcast.model import Estimate, Interval, Source
from slurmcast.probe import Site, prior
from slurmcast.probe.gpus import SHARE

HOUR = 3600


def site(power_w: float | None = None, **types: str) -> Site:
    """Partitions with their GPU types, the power of each as the admin gave it."""
    return Site(types, dict.fromkeys(types, power_w))


def estimates(where: Site, limit: int | None = 10 * HOUR, **options: object) -> dict[str, Estimate]:
    found = prior(limit, dict.fromkeys(where.types, 2), where, **options)  # type: ignore[arg-type]
    assert [e.partition for e in found] == list(where.types)
    return {e.partition: e for e in found}


def medians(found: dict[str, Estimate]) -> dict[str, float]:
    return {name: e.time_s.p50 for name, e in found.items() if e.time_s}


def test_time_is_a_share_of_the_limit_and_energy_that_of_the_power() -> None:
    found = estimates(site(300.0, a="homemade", b="other"))
    assert found["a"].time_s == found["b"].time_s == Interval(1800, 4 * HOUR, 10 * HOUR)
    assert found["a"].energy_kwh is not None
    assert found["a"].energy_kwh.p50 == pytest.approx(4 * 0.3 * 2)
    assert (found["a"].source, found["a"].gpus) == (Source.PRIOR, 2)


def test_a_faster_type_takes_less_time_by_the_published_ratio() -> None:
    found = medians(estimates(site(a="a100-pcie-40gb", b="a6000")))
    assert found["b"] == 4 * HOUR  # the limit holds for the slowest
    assert found["a"] == pytest.approx(0.622 * 4 * HOUR)


def test_the_limit_is_that_of_the_partitions_that_the_user_named() -> None:
    found = estimates(site(a="a100-pcie-40gb", b="a6000"), named=("a",))
    assert medians(found) == pytest.approx({"a": 4 * HOUR, "b": 4 * HOUR / 0.622})
    assert found["b"].time_s and found["b"].time_s.p90 > 10 * HOUR  # which keeps the job from being moved there
    assert medians(estimates(site(a="a100", b="homemade"), named=("b",))) == {"a": 4 * HOUR, "b": 4 * HOUR}


@pytest.mark.parametrize("unpublished", ["homemade", "t4", "a100_1g.5gb"])
@pytest.mark.parametrize("others", [{"x": "a100"}, {"x": "a100", "y": "v100"}, {"x": "v100", "y": "h100", "z": "k80"}])
def test_no_partition_is_faster_for_want_of_a_number(unpublished: str, others: dict[str, str]) -> None:
    for named in ((), *((name,) for name in others)):
        found = medians(estimates(site(gap=unpublished, **others), named=named))
        assert found["gap"] == max(found.values())


def test_a_ratio_widens_the_interval_and_the_limit_stays_the_end() -> None:
    found = estimates(site(a="rtx6000", b="a40", c="h100"))
    for name in ("b", "c"):
        time_s = found[name].time_s
        assert time_s is not None
        assert time_s.p50 / time_s.p10 > 8 and time_s.p90 <= 10 * HOUR
    assert found["b"].time_s and found["b"].time_s.p90 / found["b"].time_s.p50 > 2.5


def test_the_admins_power_goes_before_the_published_one() -> None:
    where = Site({"a": "a100-sxm4-80gb", "b": "a6000"}, {"a": 333.0, "b": None})
    found = estimates(where)
    for name, power_w in (("a", 333.0), ("b", 300.0 * SHARE)):
        e = found[name]
        assert e.time_s and e.energy_kwh
        assert e.energy_kwh.p50 == pytest.approx(e.time_s.p50 * power_w * 2 / 3.6e6)
    a, b = found["a"], found["b"]
    assert a.energy_kwh and b.energy_kwh and a.time_s and b.time_s
    assert a.energy_kwh.p90 / a.energy_kwh.p50 == pytest.approx(a.time_s.p90 / a.time_s.p50)
    assert b.energy_kwh.p90 / b.energy_kwh.p50 > b.time_s.p90 / b.time_s.p50


def test_energy_is_told_for_all_partitions_or_for_none() -> None:
    where = Site({"a": "a100", "b": "homemade"}, {"a": 300.0})
    assert {e.energy_kwh for e in estimates(where).values()} == {None}
    assert all(e.time_s for e in estimates(where).values())


def test_shared_gpus_have_no_energy() -> None:
    found = estimates(site(a="a100"), shared=True)
    assert found["a"].time_s
    assert found["a"].energy_kwh is None


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_nothing_is_known(limit: int | None) -> None:
    found = estimates(site(a="a100"), limit=limit)["a"]
    assert (found.time_s, found.energy_kwh, found.source) == (None, None, Source.UNKNOWN)
