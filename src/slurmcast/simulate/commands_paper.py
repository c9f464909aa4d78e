"""``slurmcast simulate paper``."""

from __future__ import annotations

from pathlib import Path

import click

from slurmcast.console import Failure, Finite, as_json, emit, guarded, reads
from slurmcast.policy.registry import POLICIES, names
from slurmcast.simulate import calibrations
from slurmcast.simulate.calibrations import DEFAULT
from slurmcast.simulate.executors import known

DEFAULT_POLICIES = "simple,greedy,value,easy"
MOST_SAMPLES = 100_000


def _calibration(name: str) -> str:
    """``name``, of a data centre, or ``all``. Raises ValueError."""
    if name != "all":
        calibrations.calibration(name)
    return name


@click.command(short_help="The paper's simulation: its Table 2 and ours.")
@click.option(
    "--samples", type=click.IntRange(1, MOST_SAMPLES), default=100, show_default=True, help="Samples to test on."
)
@click.option(
    "--validation", type=click.IntRange(1, MOST_SAMPLES), default=50, show_default=True, help="Samples to tune on."
)
@click.option(
    "--policies",
    default=DEFAULT_POLICIES,
    callback=reads(names),
    show_default=True,
    help=f"Names with commas between them, of: {', '.join(POLICIES)}.",
)
@click.option(
    "--executor",
    default="skip",
    callback=reads(known),
    show_default=True,
    help="How offers become starts: skip, slurm or agent.",
)
@click.option("--noise", type=Finite(0, 3), default=0.0, show_default=True, help="Error of predictions: 0.3 is 30 %.")
@click.option("--unknown", type=Finite(0, 1), default=0.0, show_default=True, help="Share of jobs with no prediction.")
@click.option(
    "--calibration",
    default=DEFAULT,
    callback=reads(_calibration),
    show_default=True,
    metavar="NAME",
    help="The data centre; all: each.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the samples.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the first test sample: .png, .svg.")
@as_json
@guarded
def paper(
    samples: int,
    validation: int,
    policies: tuple[str, ...],
    executor: str,
    noise: float,
    unknown: float,
    calibration: str,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Two months of made-up work on two GPU types, many times over, under several policies.

    The paper didn't publish its data centre's figures: see docs/simulation.md for what ours are and what follows.
    """
    from slurmcast.simulate import paper_show, plots
    from slurmcast.simulate.engine import SimulationError
    from slurmcast.simulate.paper import Setup, first_sample, report

    setup = Setup(policies, samples, validation, executor, noise, unknown, seed)
    try:
        if plot:
            plots.check(plot)
        answer = report(setup, calibration)
        emit(answer, as_json, paper_show.show)  # before what may yet fail: it took minutes
        if plot:
            plots.draw_columns(plot, *first_sample(setup, answer))
    except (ValueError, SimulationError, plots.PlotError) as error:
        raise Failure(str(error)) from None
