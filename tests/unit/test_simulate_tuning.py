"""Tuning kappa: the objective, the front, the choice and how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.config import Config
from slurmcast.model import DAY_S
from slurmcast.policy.base import Floats
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.registry import named
from slurmcast.simulate.engine import run
from slurmcast.simulate.executors import EXECUTORS
from slurmcast.simulate.tuning import (
    FEWEST_BLOCKS,
    Sample,
    Setup,
    Sweep,
    TuningError,
    blocks,
    break_even,
    choose,
    costs,
    grid,
    objective,
    pareto,
    report,
    sweep,
)
from slurmcast.simulate.tuning_show import MARKS, picture, tuned
from slurmcast.simulate.tuning_work import made_up
from tests.unit.test_simulate_engine import CLUSTER, random_workload, workload

SETUP = Setup("value", (0.0, 1.0, 0.0), present=1e-3)


def days(count: int, seed: int = 0) -> Sample:
    """Days of 30 jobs that come at once and are done before the next day."""
    jobs = random_workload(30 * count, seed)
    block = np.repeat(np.arange(count), 30)
    return Sample(replace(jobs, submit_s=block * DAY_S), CLUSTER, block)


@pytest.mark.parametrize(
    ("text", "weights"),
    [("run", (1, 0, 0)), ("wait", (0, 1, 0)), ("energy", (0, 0, 1)), ("1,0.5,2", (1, 0.5, 2)), (" 0, 1,1", (0, 1, 1))],
)
def test_objectives(text: str, weights: tuple[float, ...]) -> None:
    assert objective(text) == weights


@pytest.mark.parametrize("text", ["", "speed", "1,2", "1,2,3,4", "1,-1,0", "0,0,0", "nan,1,1", "inf,0,0"])
def test_objectives_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be run, wait, energy, or three weights"):
        objective(text)


def test_short_histories_are_cut_into_days_and_long_ones_into_weeks() -> None:
    at = np.array([0.0, 0.9, 1.1, 5.5]) * DAY_S
    number, kind = blocks(7.3 * DAY_S + at)
    assert (number.tolist(), kind) == ([0, 0, 1, 2], "days"), "days without jobs are no blocks"
    number, kind = blocks(np.array([0.0, 6.0, 8.0, 71.0]) * DAY_S)
    assert (number.tolist(), kind) == ([0, 0, 1, 2], "weeks")


def test_the_grid_is_around_the_break_even_kappas() -> None:
    jobs = workload([0, 0], [1, 2], [(100, 1000), (50, 50)])
    evens = break_even([Sample(jobs, CLUSTER, np.zeros(2, np.int64))])
    expected = 1 / (jobs.gpus * jobs.predicted_s * jobs.predicted_kwh)
    assert evens == pytest.approx(np.sort(expected.ravel()))
    kappas = grid(evens, present=0.123)
    assert kappas[0] == 0 and 0.123 in kappas and len(kappas) == 26
    tried = kappas[(kappas > 0) & (kappas != 0.123)]
    assert tried[[0, -1]] == pytest.approx(np.quantile(evens, (0.05, 0.95)) * [1 / 4, 4], rel=0.06)
    steps = tried[1:] / tried[:-1]
    assert steps.max() / steps.min() < 1.2


def test_without_any_energy_there_is_nothing_to_tune() -> None:
    jobs = workload([0], [1], [(100, 100)])
    jobs.predicted_kwh[:] = np.nan
    with pytest.raises(TuningError, match="no job's energy is known"):
        break_even([Sample(jobs, CLUSTER, np.zeros(1, np.int64))])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_front_is_what_nobody_beats(points: list[tuple[int, int]]) -> None:
    beaten = [any(a <= c and b <= d and (a, b) != (c, d) for a, b in points) for c, d in points]
    front = pareto(*np.array(points, float).T)
    assert front.tolist() == [not one for one in beaten]


def test_costs_are_shares_of_the_present() -> None:
    sums = np.array([[10.0, 4.0, 2.0, 1], [20.0, 8.0, 1.0, 1]])
    assert costs(sums, (1, 0, 0), 0) == pytest.approx([1, 2])
    assert costs(sums, (0, 1, 2), 1) == pytest.approx([(0.5 + 4) / 3, 1])
    nobody = np.array([[10.0, 0.0, 2.0, 0], [10.0, 0.0, 1.0, 0]])
    assert costs(nobody, (0, 1, 1), 0) == pytest.approx([0.5, 0.25]), "waiting that is always 0 counts nothing"
    first = np.array([[10.0, 0.0, 2.0, 0], [10.0, 6.0, 2.0, 0]])
    assert costs(first, (0, 1, 0), 0) == pytest.approx([0, 2]), "next to the mean where it is 0 at present"


def made(effect: Floats, noise: float, count: int, seed: int = 0) -> Sweep:
    """A sweep in which kappa number k makes a block wait 100 s times ``effect[k]``, give or take ``noise``."""
    rng = np.random.default_rng(seed)
    wait_s = 100 * effect[:, None] * rng.lognormal(0, 1, count) * rng.lognormal(0, noise, (len(effect), count))
    sums = np.stack([wait_s, wait_s, wait_s, wait_s], axis=2)
    return Sweep(np.array([0.0, 1e-4, 1e-3, 1e-2]), sums, wait_s.max(axis=1))


@pytest.mark.parametrize(
    ("effect", "noise", "index", "sure"),
    [
        ([1.0, 0.8, 1.0, 1.2], 0.02, 1, True),
        ([1.0, 1.0, 1.0, 1.0], 0.3, None, False),  # what looks better is chance
        ([1.2, 1.1, 1.0, 1.3], 0.02, 2, False),  # the present one is the best
    ],
)
def test_a_gain_is_sure_where_other_blocks_have_it_too(
    effect: list[float], noise: float, index: int | None, sure: bool
) -> None:
    for seed in range(5):
        choice = choose(made(np.array(effect), noise, 30, seed), SETUP)
        assert index in (None, choice.index)
        assert (choice.gain[0] > 0) == sure
        assert choice == choose(made(np.array(effect), noise, 30, seed), SETUP), "the same seed, the same draws"


@pytest.mark.parametrize("alike", [False, True], ids=["each by its own chance", "all others alike"])
def test_chance_is_seldom_sure_even_on_few_blocks(alike: bool) -> None:
    """Where no kappa is better, the 0.05 quantile promises a gain in 5 % of the cases at most."""
    wrong = 0
    for seed in range(100):
        found = made(np.ones(4), 0.3, FEWEST_BLOCKS, seed)
        if alike:
            found.sums[[0, 1]] = found.sums[3]
        wrong += choose(found, replace(SETUP, seed=seed)).gain[0] > 0
    assert wrong <= 5


def test_the_expected_gain_is_that_of_unseen_blocks() -> None:
    """With 25 kappas that differ by chance alone, the best of the drawn blocks promises what the others don't hold."""
    rng = np.random.default_rng(1)
    wait_s = rng.lognormal(0, 0.5, (25, 12))
    found = Sweep(np.linspace(0, 1e-3, 25), np.stack([wait_s] * 4, axis=2), wait_s.max(axis=1))
    choice = choose(found, SETUP)
    promised = 1 - costs(found.sums.sum(axis=1), SETUP.weights, 24)[choice.index]
    assert promised > 0.1 and choice.gain[1] < promised / 2


def test_of_equals_the_one_nearest_the_present() -> None:
    assert choose(made(np.array([1.0, 0.5, 1.0, 0.5]), 0.0, 10), SETUP).index == 1
    assert choose(made(np.ones(4), 0.0, 10), SETUP).index == 2


def test_the_sweep_is_the_simulators_whatever_the_number_of_processes() -> None:
    samples = [days(2, seed) for seed in range(2)]
    kappas = np.array([0.0, 1e-4])
    found = sweep(samples, kappas, SETUP, processes=1)
    assert found.sums.shape == (2, 4, 4)
    assert np.array_equal(found.sums, sweep(samples, kappas, SETUP, processes=2).sums)
    work = samples[1].workload
    schedule = run(work, CLUSTER, named("value", 1e-4), EXECUTORS["slurm"])
    wait_s = schedule.start_s - work.submit_s
    assert found.sums[1, 2:, 1].tolist() == pytest.approx([wait_s[:30].sum(), wait_s[30:].sum()])
    assert found.wait_max_s[1] >= wait_s.max()


def told(objective: tuple[float, float, float], count: int = 12) -> dict[str, Any]:
    """Work like the paper's, where kappa matters, and a present kappa that is far too large for short waits."""
    work = made_up(Config(), count, 0.3, seed=0)
    setup = replace(SETUP, weights=objective, present=1e-4)
    return report(work.samples, setup, work.kind, processes=1)


def test_a_report_recommends_what_its_points_say(capsys: pytest.CaptureFixture[str]) -> None:
    wait, energy = told((0.0, 1.0, 0.0)), told((0.0, 0.0, 1.0))
    for answer in (wait, energy):
        assert answer["recommended"]["objective"] == min(point["objective"] for point in answer["points"])
        assert answer["present"]["objective"] == 1.0 and answer["present"]["kappa"] == 1e-4
        assert answer["recommended"]["pareto"]
    assert wait["sure"] and wait["gain"]["p05"] > 0 and wait["recommended"]["kappa"] < 1e-6
    assert wait == told((0.0, 1.0, 0.0)), "the same seed, the same answer"
    assert wait["easy"] == energy["easy"] and wait["easy"]["wait_s"] > wait["recommended"]["wait_s"]
    assert not energy["sure"] and energy["recommended"]["kappa"] >= 1e-5

    tuned(wait | {"notes": [], "source": "made up"})
    title = " ".join(capsys.readouterr().out.partition("kappa")[0].split())
    assert all(f"{MARKS[kind]}: " in title for kind in ("front", "present", "recommended"))
    lines = picture(wait)
    field = [line[11:] for line in lines[1:15]]
    at = {mark: [(n, line.index(mark)) for n, line in enumerate(field) if mark in line] for mark in "*x"}
    ((best_row, best_column),), ((now_row, now_column),) = at["*"], at["x"]
    assert not picture(wait | {"points": wait["points"][:1] * 3}), "where no kappa differs, there is nothing to draw"
    assert best_row > now_row and best_column > now_column, "less waiting is down, more energy is right"


def test_the_look_ahead_rule_has_the_sites_patience() -> None:
    sample, kappas = days(2), np.array([0.0])
    setup = replace(SETUP, policy="lookahead", patience=0.0)
    found = [sweep([sample], kappas, replace(setup, patience=patience), 1).sums for patience in (0.0, 2.0)]
    assert not np.array_equal(*found)


def test_too_little_history_is_said() -> None:
    answers = [report([days(count)], SETUP, "days", processes=1) for count in (3, 1)]
    assert not answers[0]["sure"] and "90 jobs on 3 days; it takes 100 jobs and 8 days" in answers[0]["reason"]
    assert "30 jobs on 1 day; it" in answers[1]["reason"]
    assert answers[1]["gain"] == {"p05": None, "p50": None, "p95": None}


def test_the_sites_cap_is_part_of_it() -> None:
    sample = days(2)
    capped = replace(sample, inputs=Inputs(1300.0, np.array([300.0, 200.0])))
    free, under = (sweep([s], np.array([0.0]), SETUP, 1).sums.sum(axis=1)[0, 1] for s in (sample, capped))
    assert under > 1.2 * free
