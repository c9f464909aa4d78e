"""Numbers as columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmcast.probe.examples import Example, merged
from slurmcast.probe.features import MAX_NUMBERS, Numbers, choose_numbers, squared_distances, unit


def numbers_of(*entries: dict[str, float], gpus: int = 1) -> Numbers:
    vector = np.ones(2, np.float32)
    return choose_numbers(merged(Example(str(n), vector, e, gpus, "p", "", 1.0) for n, e in enumerate(entries)))


def test_columns_are_logarithms_around_their_mean() -> None:
    numbers = numbers_of({"epochs": 10}, {"epochs": 1000})
    assert numbers.names == ("epochs", "gpus")
    assert numbers.row({"epochs": 100}, 1) == pytest.approx([0, 0])
    assert numbers.row({"epochs": 1000}, 4) == pytest.approx([math.log(10), math.log(4)])


def test_an_absent_number_lies_at_the_mean_and_is_told_apart() -> None:
    numbers = numbers_of({"epochs": 10}, {"epochs": 10, "folds": 5})
    assert numbers.sometimes == ("folds",)
    assert numbers.row({"epochs": 10, "folds": 5}, 1)[-1] == 0.5
    for absent in ({}, {"folds": 0}, {"folds": -3}, {"folds": math.nan}):
        assert numbers.row({"epochs": 10, **absent}, 1)[[0, 1, 2, -1]] == pytest.approx([0, 0, 0, -0.5])


def test_gpus_are_what_the_partition_takes_and_the_time_limit_is_no_work() -> None:
    numbers = numbers_of({"gpus": 8, "time_limit_s": 60}, {"gpus": 8, "time_limit_s": 6000}, gpus=2)
    assert numbers.names == ("gpus",)
    assert numbers.row({"gpus": 8}, 4) == pytest.approx([math.log(2)])


def test_the_most_frequent_numbers_are_chosen() -> None:
    many = [{f"n{k}": 2.0, "epochs": 3.0} for k in range(60)]
    assert len(numbers_of(*many).names) == MAX_NUMBERS
    assert {"epochs", "gpus"} <= set(numbers_of(*many).names)


def test_distances_and_units() -> None:
    vectors = unit(np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]))
    assert vectors.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 1], [0, 0]]
    assert squared_distances(vectors[:2], vectors[:2]) == pytest.approx(np.array([[0, 0.4], [0.4, 0]]), abs=1e-6)


def test_settings_come_back() -> None:
    numbers = numbers_of({"epochs": 10}, {"steps": 100})
    assert Numbers.from_settings(numbers.to_settings()) == numbers
