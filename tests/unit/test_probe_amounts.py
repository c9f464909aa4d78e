"""Amounts of work: typical of the script, and beyond it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmcast.probe.amounts import ahead, split, typical_of_groups, typical_of_nearest
from slurmcast.probe.examples import Example, merged
from slurmcast.probe.features import Array, Numbers, choose_numbers, unit

Jobs = list[dict[str, float]]


def columns(jobs: Jobs) -> tuple[Numbers, Array, Array]:
    vector = np.ones(2, np.float32)
    numbers = choose_numbers(merged(Example(str(n), vector, job, 1, "p", "", 1.0) for n, job in enumerate(jobs)))
    return numbers, np.stack([numbers.row(job, 1) for job in jobs]), np.stack([numbers.levels(job) for job in jobs])


@pytest.mark.parametrize(
    ("usual", "job", "expected"),
    [
        ({"epochs": 10}, {"epochs": 20}, 2),
        ({"epochs": 10, "samples": 100}, {"epochs": 20, "samples": 300}, 6),
        ({"epochs": 10, "steps": 100}, {"epochs": 20, "steps": 500}, 2),
        ({"steps": 100}, {"steps": 500}, 5),
        ({"steps": 100, "samples": 100}, {"steps": 500, "samples": 300}, 5),
        ({"samples": 100, "trials": 1}, {"samples": 300, "trials": 4}, 12),
        ({"batch_size": 8}, {"batch_size": 64}, 1),
        ({"epochs": 1, "batch_size": 8}, {"epochs": 2, "batch_size": 32}, 2),
        ({"steps": 10, "batch_size": 8}, {"steps": 20, "batch_size": 32}, 4),
        ({"layers": 2, "hidden_size": 64}, {"layers": 4, "hidden_size": 128}, 2),
        ({"epochs": 10}, {}, 1),
        ({}, {}, 1),
    ],
)
def test_time_is_proportional_to_the_work_within_a_script(
    usual: dict[str, float], job: dict[str, float], expected: float
) -> None:
    # The script has run with its usual arguments only; another one has other numbers.
    numbers, rows, levels = columns([usual, {"epochs": 3, "lr": 7}, {"steps": 5}, job])
    typical = typical_of_groups(levels, ["one", "two", "three", "four"])
    typical[3] = np.where(np.isfinite(typical[0]), typical[0], typical[3])
    found = ahead(numbers, split(numbers, rows, levels, typical))
    assert np.exp(found) == pytest.approx([1, 1, 1, expected])


def test_between_scripts_nothing_is_taken_for_granted() -> None:
    numbers, rows, levels = columns([{"epochs": 1}, {"epochs": 4}, {"epochs": 500}])
    found = split(numbers, rows, levels, typical_of_groups(levels, ["a", "a", "b"]))
    assert np.exp(ahead(numbers, found)) == pytest.approx([0.5, 2, 1])
    typical = found[:, numbers.names.index("epochs")]
    assert typical[0] == typical[1] == pytest.approx(rows[:2].mean(axis=0)[numbers.names.index("epochs")])
    assert typical[2] == pytest.approx(rows[2, numbers.names.index("epochs")])


def test_jobs_without_the_number_do_not_count_for_what_is_typical() -> None:
    numbers, rows, levels = columns([{"epochs": 8}, {}, {"epochs": 32}])
    typical = typical_of_groups(levels, ["a", "a", "a"])
    assert typical[:, 0] == pytest.approx([math.log(16)] * 3)
    assert ahead(numbers, split(numbers, rows, levels, typical)) == pytest.approx([-math.log(2), 0, math.log(2)])


def test_a_near_script_is_typical_as_the_known_one_and_a_far_one_as_its_sources_say() -> None:
    numbers, _, levels = columns([{"epochs": 2}, {"epochs": 8}])
    vectors = unit(np.array([[1.0, 0.0], [0.0, 1.0]]))
    asked = unit(np.array([[1.0, 0.01], [1.0, 1.0]]))
    usual = np.stack([numbers.usual(job) for job in ({"epochs": 8}, {"epochs": 8, "default epochs": 3})])
    typical, known = typical_of_nearest(asked, usual, vectors, typical_of_groups(levels, ["a", "b"]), near=0.1)
    assert np.exp(typical[:, 0]) == pytest.approx([2, 3])
    assert known.tolist() == [True, False]


def test_options_of_a_programs_own_count_half_within_a_script_and_nothing_between() -> None:
    jobs: Jobs = [{"epochs": 1, "--critics": 2}, {"epochs": 1, "--critics": 8}, {"epochs": 1, "--trees": 500}, {}]
    numbers, rows, levels = columns(jobs)
    found = ahead(numbers, split(numbers, rows, levels, typical_of_groups(levels, ["a", "a", "b", "c"])))
    assert np.exp(found) == pytest.approx([0.5**0.5, 2**0.5, 1, 1])


def test_an_option_that_no_job_varied_counts_in_the_job_that_does() -> None:
    numbers, _, levels = columns([{"epochs": 1, "--trees": 500}, {"epochs": 2, "--trees": 500}])
    job = {"epochs": 1, "--trees": 2000}
    typical = typical_of_groups(levels, ["a", "a"])
    found = split(numbers, numbers.row(job, 1)[None, :], numbers.levels(job)[None, :], typical[:1])
    assert np.exp(ahead(numbers, found)) == pytest.approx([2 / 2**0.5])


def test_all_scripts_learn_together_how_far_the_expected_exponents_hold() -> None:
    jobs: Jobs = [{"epochs": 1, "layers": 4, "--a": 2, "--b": 9}, {"epochs": 4, "layers": 4, "--a": 8, "--b": 1}]
    numbers, rows, levels = columns(jobs)
    found = split(numbers, rows, levels, typical_of_groups(levels, ["a", "a"]))
    expected, own = found[:, numbers.width + len(numbers.measures) :].T[:2]
    assert np.exp(expected) == pytest.approx([0.5, 2])
    assert np.exp(own) == pytest.approx([1.5, 1 / 1.5])
    assert found.shape == (2, numbers.width + len(numbers.quantities) + 2)
