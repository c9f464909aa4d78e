"""Merging of repeated runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmcast.probe.examples import Example, TrainingError, latest, merged

VECTOR = np.ones(3, np.float32)


def run(
    key: str = "a", partition: str = "p", time_s: float = 100.0, energy: float | None = None, **more: object
) -> Example:
    return Example(
        key, VECTOR, {}, int(str(more.get("gpus", 1))), partition, str(more.get("gpu_type", "")), time_s, energy
    )


def test_runs_of_one_key_on_one_type_are_one_sample_and_the_latest_stays_apart() -> None:
    first, latest, other = merged(
        [run(time_s=100, energy=0.02), run(time_s=400), run(key="b"), run(time_s=200), run(time_s=500)]
    )
    assert (first.key, first.type, first.runs, first.measured) == ("a", "p", 3, 1)
    assert math.exp(first.log_time) == pytest.approx(200)
    assert math.exp(first.log_power or 0) == pytest.approx(0.02 * 3.6e6 / 100)
    assert (latest.key, latest.runs, math.exp(latest.log_time)) == ("a", 1, pytest.approx(500))
    assert (other.key, other.runs, other.log_power, other.log_energy) == ("b", 1, None, None)


def test_partitions_of_one_gpu_type_are_merged_and_gpu_counts_are_not() -> None:
    samples = merged([*(run(partition=name, gpu_type="a100") for name in "pqp"), run(gpus=2)])
    assert [(s.type, s.gpus, s.runs) for s in samples] == [("a100", 1, 2), ("a100", 1, 1), ("p", 2, 1)]


def test_energy_is_of_all_gpus() -> None:
    (sample,) = merged([run(time_s=3600, energy=0.8, gpus=4)])
    assert math.exp(sample.log_power or 0) == pytest.approx(200)
    assert math.exp(sample.log_energy or 0) == pytest.approx(0.8)


@pytest.mark.parametrize("energy", [0.0, -1.0, None])
def test_energy_that_was_not_measured_is_no_zero(energy: float | None) -> None:
    (sample,) = merged([run(energy=energy)])
    assert sample.log_energy is None


@pytest.mark.parametrize(("time_s", "gpus"), [(0, 1), (-5, 1), (math.nan, 1), (math.inf, 1), (10, 0)])
def test_runs_that_cannot_have_been_are_refused(time_s: float, gpus: int) -> None:
    with pytest.raises(TrainingError, match="a: a run of"):
        merged([run(time_s=time_s, gpus=gpus)])


@pytest.mark.parametrize(
    ("count", "kept"), [(0, ""), (1, "a"), (2, "ac"), (3, "abc"), (4, "abbc"), (5, "aabbc"), (9, "aabbc")]
)
def test_what_still_runs_is_among_the_latest(count: int, kept: str) -> None:
    samples = merged(run(key=key) for key in "aabbca")
    assert "".join(sample.key for sample in latest(samples, count)) == kept
