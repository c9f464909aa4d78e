"""Conformal ends of intervals, and the territory where they hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from slurmcast.probe.fair_share import shares
from slurmcast.probe.features import unit
from slurmcast.probe.intervals import OWN, POOLED, Tails, calibrate, ends_for, upper
from slurmcast.probe.intervals import tails as tails_of
from slurmcast.probe.territory import ONE_PROGRAM, SAME_SCRIPT, survey


def tails(residuals: np.ndarray, groups: Sequence[Hashable] | None = None) -> Tails | None:
    return tails_of(residuals, shares(groups or range(len(residuals)), [None] * len(residuals), 1))


def test_upper_is_corrected_for_finite_samples() -> None:
    values = np.arange(1.0, 20.0)  # 19 values: the 18th is exceeded by a twentieth new one with probability 2/20
    assert upper(values, np.ones(19), 19) == 18
    assert upper(values[:9], np.ones(9), 9) == 9
    assert upper(values[:8], np.ones(8), 8) is None


def test_ends_hold_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2000):
        residuals = rng.standard_t(3, 31)
        ends = tails(residuals[:30])
        assert ends is not None
        inside.append(ends.low <= residuals[30] <= ends.high)
    assert 0.79 < np.mean(inside) < 0.87


def test_residuals_of_one_group_count_as_one() -> None:
    rng = np.random.default_rng(0)
    residuals, groups = rng.normal(size=400), [n // 50 for n in range(400)]
    assert tails(residuals) is not None
    assert tails(residuals, groups) is None  # eight groups


def test_ends_lie_on_both_sides() -> None:
    ends = tails(np.linspace(1, 2, 50))
    assert ends is not None
    assert ends.low == 0


def test_types_with_few_residuals_share() -> None:
    rng = np.random.default_rng(0)
    residuals = np.concatenate([rng.normal(size=OWN), 100 * rng.normal(size=OWN - 1), [np.nan]])
    found = calibrate(residuals, ["a"] * OWN + ["b"] * OWN)
    assert found is not None
    assert set(found) == {"a", POOLED}
    assert ends_for(found, "b") == found[POOLED]
    assert ends_for(found, "a").high < ends_for(found, "b").high  # type: ignore[union-attr]
    assert calibrate(np.array([1.0, 2.0]), ["a", "a"]) is None
    assert ends_for(None, "a") is None


def test_each_type_has_ends_of_its_own_scale() -> None:
    rng = np.random.default_rng(0)
    scale = np.where(np.arange(900) % 3 == 0, 5.0, 1.0)
    types = ["noisy" if n % 3 == 0 else "quiet" for n in range(900)]
    found = calibrate(scale * rng.normal(size=900), types)
    assert found is not None
    for name, size in (("noisy", 5.0), ("quiet", 1.0)):
        ends = found[name]
        fresh = size * rng.normal(size=4000)
        assert 0.77 < np.mean((ends.low <= fresh) & (fresh <= ends.high)) < 0.84, name


def test_tails_are_plain() -> None:
    assert tails(np.zeros(20)) == Tails(0, 0)


def clustered(clusters: int) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=16) + 0.8 * rng.normal(size=(clusters, 16))
    vectors = np.repeat(centres, 4, axis=0) + rng.normal(0, 0.02, (4 * clusters, 16))
    return unit(vectors), [f"key {n}" for n in range(4 * clusters)]


def test_scripts_are_clustered_and_the_far_limit_is_what_was_tested() -> None:
    vectors, keys = clustered(12)
    found = survey(vectors, keys, True)
    assert found.far_tested
    assert len(set(found.clusters)) == 12
    territory = found.territory
    assert territory.near == SAME_SCRIPT
    assert territory.limit > 0.5
    assert territory.nearest(vectors[7] * 3)[0] == pytest.approx(0, abs=1e-6)
    assert territory.nearest(-vectors[7])[0] > territory.limit


def test_settings_of_one_program_are_one_cluster_though_each_is_unlike_what_is_near() -> None:
    # Nearest settings lie 0.15 apart or less, as nineteen in twenty jobs do; one has other arguments in many places.
    angles = np.concatenate([np.linspace(0, 0.3, 30), [0.5], np.linspace(2.0, 2.3, 30)])
    vectors = unit(np.column_stack([np.cos(angles), np.sin(angles)]))
    found = survey(vectors, [f"key {n}" for n in range(61)], True)
    assert found.territory.near == SAME_SCRIPT
    assert len(set(found.clusters)) == 2


def test_few_clusters_leave_nothing_to_test_far_jobs_by() -> None:
    vectors, keys = clustered(5)
    found = survey(vectors, keys, True)
    assert not found.far_tested
    assert len(set(found.clusters)) == 5
    assert found.territory.limit == found.territory.near


def test_variants_of_one_program_do_not_tell_of_unknown_ones() -> None:
    rng = np.random.default_rng(0)
    variants = rng.normal(size=16) + 0.4 * rng.normal(size=(20, 16))  # twenty clusters that are all much alike
    loners = rng.normal(size=(5, 16))
    vectors = unit(np.repeat(np.vstack([variants, loners]), 4, axis=0) + rng.normal(0, 0.01, (100, 16)))
    found = survey(vectors, [f"key {n}" for n in range(100)], True)
    assert len(set(found.clusters)) == 25
    assert found.territory.limit < 0.7 < found.territory.nearest(rng.normal(size=16))[0]
    assert found.far[80:].all()
    assert len({c for c, far in zip(found.clusters, found.far, strict=True) if far}) == 12


def test_repeats_under_one_key_do_not_make_a_script_known() -> None:
    vectors, _ = clustered(5)
    found = survey(vectors, [f"script {n // 4}" for n in range(20)], False)
    assert not found.near.any()


def test_programs_that_ran_once_do_not_make_unknown_ones_pass_as_known() -> None:
    vectors, keys = clustered(10)
    first = [n for n in range(40) if n < 16 or n % 4 == 0]  # six of ten programs have run once
    found = survey(vectors[first], [keys[n] for n in first], True)
    assert found.near.tolist() == [True] * 16 + [False] * 6
    assert len(set(found.clusters)) == 10
    assert found.territory.near <= ONE_PROGRAM < found.territory.limit
