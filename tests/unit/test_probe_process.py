"""The Gaussian process: its gradient, and that leaving out by formula is leaving out indeed."""

from __future__ import annotations

import numpy as np
import pytest

from slurmcast.probe.features import Array, squared_distances, unit
from slurmcast.probe.folds import FOLDS
from slurmcast.probe.kernel import Inputs, Terms, loss_and_gradient, prior_means, variances
from slurmcast.probe.process import Process, cross_fit, fit


def made(count: int, seed: int = 0) -> tuple[Inputs, Array, Array]:
    rng = np.random.default_rng(seed)
    inputs = Inputs(unit(rng.normal(size=(count, 5))), rng.normal(size=(count, 3)), rng.integers(0, 2, count))
    targets = inputs.rows[:, 0] + 0.5 * inputs.types + rng.normal(0, 0.05, count)
    return inputs, targets, rng.integers(1, 4, count).astype(np.float64)


@pytest.mark.parametrize("shared", [0, 2], ids=["an exponent each", "two columns share one"])
def test_gradient_is_the_slope_of_the_loss(shared: int) -> None:
    inputs, targets, runs = made(25)
    inputs = Inputs(inputs.vectors, inputs.rows, inputs.types, shared).take(np.arange(25) // 2)  # works in pairs
    means = prior_means(3, shared)
    theta = means + np.random.default_rng(1).normal(0, 0.3, len(means))
    squared = squared_distances(inputs.vectors, inputs.vectors)
    _, gradient = loss_and_gradient(theta, inputs, squared, targets, runs)

    def loss(at: Array) -> float:
        return loss_and_gradient(at, inputs, squared, targets, runs)[0]

    slopes = [(loss(theta + step) - loss(theta - step)) / 2e-5 for step in np.eye(len(theta)) * 1e-5]
    assert gradient == pytest.approx(np.array(slopes), abs=1e-5)
    assert variances(theta, inputs) == pytest.approx(np.diag(Terms(theta, inputs, inputs).covariance()))


def test_variances_are_the_covariances_of_jobs_with_themselves() -> None:
    inputs, _, _ = made(10)
    theta = prior_means(3)
    assert variances(theta, inputs) == pytest.approx(np.diag(Terms(theta, inputs, inputs).covariance()))


def test_left_out_is_what_a_process_without_the_group_predicts() -> None:
    inputs, targets, runs = made(30)
    process = Process(prior_means(3), inputs, targets, runs)
    groups = [n // 3 for n in range(30)]
    means, spreads = process.left_out(groups)
    for group in (0, 4, 9):
        out = np.array([g == group for g in groups])
        rest = Process(prior_means(3), inputs.take(np.flatnonzero(~out)), targets[~out], runs[~out])
        rest.mean = process.mean
        expected_means, expected_spreads = rest.predict(inputs.take(np.flatnonzero(out)))
        assert means[out] == pytest.approx(expected_means)
        assert spreads[out] == pytest.approx(expected_spreads)


def test_a_job_may_look_otherwise_when_left_out() -> None:
    inputs, targets, runs = made(12)
    process = Process(prior_means(3), inputs, targets, runs)
    other = Inputs(inputs.vectors, inputs.rows + 1, inputs.types)
    means, spreads = process.left_out(range(12), other)
    rest = np.arange(12) != 4
    without = Process(prior_means(3), inputs.take(np.flatnonzero(rest)), targets[rest], runs[rest])
    without.mean = process.mean
    expected, spread = without.predict(other.take(np.array([4])))
    assert (means[4], spreads[4]) == (pytest.approx(expected[0]), pytest.approx(spread[0]))


def of_one_program(inputs: Inputs, targets: np.ndarray) -> Process:
    return fit(inputs, targets, np.ones(len(inputs)), [0] * len(inputs), np.ones(len(inputs)))


def test_fit_finds_exponent_ratio_and_noise() -> None:
    inputs, targets, _ = made(80)
    process = of_one_program(inputs, targets)
    asked = Inputs(inputs.vectors[:2], np.array([[2.0, 0, 0], [2.0, 0, 0]]), np.array([0, 1]))
    means, spreads = process.predict(asked)
    assert means == pytest.approx([2.0, 2.5], abs=0.15)
    assert (spreads < 0.3).all()


def test_what_no_number_explains_of_a_work_goes_with_it_to_another_type() -> None:
    rng = np.random.default_rng(0)
    vectors, rows = unit(1 + 0.01 * rng.normal(size=(60, 5))), rng.normal(size=(60, 3))
    own, work, types = rng.normal(0, 0.5, 60), np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    targets = rows[work, 0] + own[work] + 0.3 * types
    seen = (types == 0) | (work < 40)
    process = of_one_program(Inputs(vectors[work[seen]], rows[work[seen]], types[seen]), targets[seen])
    known, spread = process.predict(Inputs(vectors[40:], rows[40:], np.ones(20, np.int64)))
    assert known == pytest.approx(targets[~seen], abs=0.15)
    _, of_others = process.predict(Inputs(vectors[40:], rows[40:] + 1e-3, np.ones(20, np.int64)))
    assert (of_others > 1.5 * spread).all()


def test_one_outlier_moves_little() -> None:
    inputs, targets, _ = made(80)
    spoilt = targets.copy()
    spoilt[5] += 5
    clean, dirty = (of_one_program(inputs, t).predict(inputs)[0] for t in (targets, spoilt))
    others = np.arange(80) != 5
    assert np.median(np.abs(clean - dirty)[others]) < 0.1


def test_cross_fitted_parameters_owe_nothing_to_what_they_are_tested_on() -> None:
    inputs, targets, runs = made(40)
    groups = [n // 2 for n in range(40)]
    crossed = cross_fit(Process(prior_means(3), inputs, targets, runs), groups, seed=3)
    assert sorted(set(crossed.fold)) == list(range(FOLDS))
    assert (crossed.fold[::2] == crossed.fold[1::2]).all()
    other = np.where(crossed.fold == 1, -3 * targets, targets)
    changed = cross_fit(Process(prior_means(3), inputs, other, runs), groups, seed=3)
    same = [bool((a.theta == b.theta).all()) for a, b in zip(crossed.processes, changed.processes, strict=True)]
    assert same[1]
    assert not any(same[:1] + same[2:])


def test_cross_fitted_predictions_are_those_of_each_folds_process() -> None:
    inputs, targets, runs = made(40)
    groups = [n // 2 for n in range(40)]
    crossed = cross_fit(Process(prior_means(3), inputs, targets, runs), groups, seed=3)
    means, spreads = crossed.left_out(groups, inputs)
    for number, process in enumerate(crossed.processes):
        index = crossed.fold == number
        expected = process.left_out(groups, inputs)
        assert means[index] == pytest.approx(expected[0][index])
        assert spreads[index] == pytest.approx(expected[1][index])
