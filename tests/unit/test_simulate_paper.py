"""The paper's experiment: tuning, figures, tables, plots."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.simulate import paper, plots
from slurmcast.simulate.calibrations import DEFAULT, calibration
from slurmcast.simulate.metrics import measure
from slurmcast.simulate.paper import GRID, VALIDATION, Candidate, Setup, experiment, gains, ranges, sample, tune, unit
from slurmcast.simulate.parallel import each
from slurmcast.simulate.workload import Schedule, Workload

CENTRE = calibration(DEFAULT)
SETUP = Setup(("simple", "greedy", "value"), samples=3, validation=2)
NAMES = ["simple", *(f"{name}[{of}]" for name in ("greedy", "value") for of in ("wait", "run", "energy"))]


def test_the_same_by_any_number_of_processes() -> None:
    alone, two = experiment(CENTRE, SETUP, "", processes=1), experiment(CENTRE, SETUP, "", processes=2)
    assert alone == two
    assert list(alone) == NAMES


def test_each_weight_is_the_best_of_the_grid_on_the_validation_samples() -> None:
    setup = Setup(("value",), validation=3)
    found = tune(CENTRE, setup, "", 1)["value"]
    samples = [sample(CENTRE, setup, VALIDATION, number) for number in range(3)]
    for objective, metric in paper.OBJECTIVES.items():
        costs = {}
        for share in GRID:
            candidate = Candidate("value", share * unit(CENTRE, "kappa"))
            runs = [(w, c, candidate.schedule(w, c, "skip")) for w, c in samples]
            costs[candidate.weight] = sum(getattr(measure(*one), metric) for one in runs)
        assert costs[found[f"value[{objective}]"].weight] == min(costs.values())


def test_predictions_with_an_error_change_what_value_does_but_not_what_is_true() -> None:
    plain, _ = sample(CENTRE, SETUP, VALIDATION, 0)
    noisy, _ = sample(CENTRE, Setup(SETUP.policies, noise=0.3, unknown=0.1), VALIDATION, 0)
    assert np.array_equal(plain.time_s, noisy.time_s)
    assert np.isnan(noisy.predicted_s).any()
    assert not np.array_equal(plain.predicted_s, noisy.predicted_s)


def test_gains_and_ranges() -> None:
    zero = dict.fromkeys(paper.METRICS, 0.0)
    first = {"simple": {**zero, "wait_s": 200.0}, "value": {**zero, "wait_s": 150.0}}
    second = {"simple": {**zero, "wait_s": 100.0}, "value": {**zero, "wait_s": 90.0}}
    assert gains(first, "simple") == {"value": {"wait_s": -0.25}}
    found = ranges([gains(first, "simple"), gains(second, "simple")])["value"]
    assert found["wait_s"] == pytest.approx([-0.25, -0.175, -0.1])


def test_work_in_its_order_and_errors_come_through() -> None:
    assert each(float, ["3", "1", "2"], "", 2) == [3, 1, 2]
    with pytest.raises(ValueError, match="could not convert"):
        each(float, ["3", "x"], "", 2)


def test_a_killed_process_is_said() -> None:
    with pytest.raises(ChildProcessError, match="was killed; was there too little memory"):
        each(_kill, [1, 2, 3], "", 2)


def _kill(number: int) -> None:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)


def test_waiting_tasks_and_power_by_hand() -> None:
    one = np.ones((2, 1))
    time_s, energy = np.array([[3600.0], [1800.0]]), np.array([[2.0], [np.nan]])
    work = Workload(np.array([0.0, 0.0]), one, one > 0, time_s, energy, time_s, time_s, energy, np.full(2, np.inf))
    schedule = Schedule(np.array([0.0, 3600.0]), np.array([0, 0]))
    assert [part.tolist() for part in plots.waiting(work, schedule)] == [[0, 3600], [1, 0]]
    assert [part.tolist() for part in plots.power(work, schedule)] == [[0, 3600, 5400], [2, 0, 0]]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_plot_is_drawn(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"figure{suffix}"
    arguments = ["simulate", "paper", "--samples", "2", "--validation", "1", "--policies", "simple,value"]
    result = CliRunner().invoke(main, [*arguments, "--plot", str(file)])
    assert result.exit_code == 0, result.output
    assert file.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert "value[energy]" in result.output
    assert "2,466,063" in result.output
    assert "-30.3 %" in result.output


def test_json_and_the_ranges_over_all_data_centres(monkeypatch: pytest.MonkeyPatch) -> None:
    two = dict.fromkeys((DEFAULT, "other"), CENTRE)
    monkeypatch.setattr(paper, "calibrations", lambda: two)
    arguments = ["simulate", "paper", "--samples", "2", "--validation", "1", "--policies", "simple,value", "--json"]
    answer = json.loads(CliRunner().invoke(main, [*arguments, "--calibration", "all"]).output)
    assert set(answer["policies"]["value[wait]"]) >= {"wait_s", "waiting_tasks", "run_s", "energy_kwh", "weight", "se"}
    low, _, high = answer["ranges"]["simple"]["wait_s"]
    assert low == high == answer["policies"]["simple"]["wait_s"]


def test_what_the_figures_are_of_is_said() -> None:
    arguments = ["simulate", "paper", "--samples", "1", "--validation", "1", "--executor", "slurm", "--noise", "0.3"]
    said = CliRunner().invoke(main, [*arguments, "--policies", "value,lookahead"]).output
    assert "means of 1 samples, executor slurm, noise 30%" in said and "unknown" not in said
    assert "lookahead: its weight is tuned; patience = 0.5 and longest_wait_s = 604800 are not." in said
    said = CliRunner().invoke(main, [*arguments, "--policies", "value", "--unknown", "0.1"]).output
    assert "noise 30%, 10% unknown" in " ".join(said.split()) and "not." not in said


def test_one_sample_has_no_error() -> None:
    arguments = ["simulate", "paper", "--samples", "1", "--validation", "1", "--policies", "simple", "--json"]
    answer = json.loads(CliRunner().invoke(main, arguments).output, parse_constant=pytest.fail)
    assert set(answer["policies"]["simple"]["se"].values()) == {None}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--policies", "fifo"], 2, "there is no policy 'fifo'; there are: simple, "),
        (["--executor", "magic"], 2, "there is no executor 'magic'; there are: skip"),
        (["--calibration", "c99"], 2, "there is no calibration 'c99'; there are: c01, "),
        (["--plot", "figure.txt"], 1, "figure.txt: the name of a plot must end with one of .png, .svg, .pdf"),
        (["--plot", "/nowhere/figure.png"], 1, "/nowhere: there is no such folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(main, ["simulate", "paper", "--samples", "1", "--validation", "1", *arguments])
    assert result.exit_code == code and "Traceback" not in result.output
    assert message in result.stderr.splitlines()[-1]


def test_without_matplotlib_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plots.PlotError, match=r"pip install '\.\[plots\]' in a clone"):
        plots.check(Path("figure.png"))
