"""Amounts of work: typical of the script, and beyond it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmcast.probe.amounts import ahead, split, typical_of_groups, typical_of_nearest
from slurmcast.probe.examples import Example, merged
from slurmcast.probe.features import Array, Numbers, choose_numbers, unit
from slurmcast.probe.kernel import Inputs

Jobs = list[dict[str, float]]


def columns(jobs: Jobs) -> tuple[Numbers, Array]:
    vector = np.ones(2, np.float32)
    numbers = choose_numbers(merged(Example(str(n), vector, job, 1, "p", "", 1.0) for n, job in enumerate(jobs)))
    return numbers, np.stack([numbers.row(job, 1) for job in jobs])


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
        ({"epochs": 10}, {}, 1),
        ({}, {}, 1),
    ],
)
def test_time_is_proportional_to_the_work_within_a_script(
    usual: dict[str, float], job: dict[str, float], expected: float
) -> None:
    # The script has run with its usual arguments only; another one has other numbers.
    numbers, rows = columns([usual, {"epochs": 3, "lr": 7}, {"steps": 5}, job])
    typical = typical_of_groups(numbers, rows, ["one", "two", "three", "four"])
    typical[3] = typical[0]
    found = ahead(numbers, split(numbers, rows, typical))
    assert np.exp(found) == pytest.approx([1, 1, 1, expected])


def test_between_scripts_nothing_is_taken_for_granted() -> None:
    numbers, rows = columns([{"epochs": 1}, {"epochs": 4}, {"epochs": 500}])
    found = split(numbers, rows, typical_of_groups(numbers, rows, ["a", "a", "b"]))
    assert np.exp(ahead(numbers, found)) == pytest.approx([0.5, 2, 1])
    typical = found[:, numbers.names.index("epochs")]
    assert typical[0] == typical[1] == pytest.approx(rows[:2].mean(axis=0)[numbers.names.index("epochs")])
    assert typical[2] == rows[2, numbers.names.index("epochs")]


def test_jobs_without_the_number_do_not_count_for_what_is_typical() -> None:
    numbers, rows = columns([{"epochs": 8}, {}, {"epochs": 32}])
    typical = typical_of_groups(numbers, rows, ["a", "a", "a"])
    assert typical[:, 0] == pytest.approx([0, 0, 0])  # around the mean of log 8 and log 32
    assert ahead(numbers, split(numbers, rows, typical)) == pytest.approx([-math.log(2), 0, math.log(2)])


def test_a_near_script_is_typical_as_the_known_one_and_a_far_one_as_itself() -> None:
    numbers, rows = columns([{"epochs": 2}, {"epochs": 8}])
    vectors = unit(np.array([[1.0, 0.0], [0.0, 1.0]]))
    types = np.zeros(2, np.int64)
    known = Inputs(vectors, split(numbers, rows, typical_of_groups(numbers, rows, ["a", "b"])), types)
    asked = Inputs(
        unit(np.array([[1.0, 0.01], [1.0, 1.0]])), np.stack([numbers.row({"epochs": 8}, 1)] * 2), np.zeros(2, np.int64)
    )
    typical = typical_of_nearest(numbers, asked, known, near=0.1)[:, 0]
    assert typical == pytest.approx([rows[0, 0], asked.rows[1, 0]])
