"""``slurmcast label``, thin: what may be given. :mod:`slurmcast.label.main` does it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slurmcast import config
from slurmcast.console import Finite, as_json, emit, guarded
from slurmcast.label.plan import Exclusive, Rules
from slurmcast.label.words import Budget

STATE = "slurmcast-label.jsonl"
"""The file's name in the scripts' folder; beside it lies the folder of the runs' output."""


@click.command(short_help="Run scripts often enough to trust their times.")
@click.argument("scripts", metavar="DIR|LIST", type=click.Path(exists=True, path_type=Path))
@click.option("--partition", "-p", "names", multiple=True, metavar="P", help="Only there; default: all managed ones.")
@click.option("--runs", "least", type=click.IntRange(2, 20), default=2, show_default=True, help="Runs at least.")
@click.option("--max-runs", "most", type=click.IntRange(2, 20), default=3, show_default=True, help="Runs at most.")
@click.option("--gpu-hours", type=Finite(min=0, min_open=True), metavar="H", help="Budget in GPU hours.")
@click.option("--kwh", type=Finite(min=0, min_open=True), metavar="E", help="Budget in kWh of the GPUs.")
@click.option(
    "--yes", is_flag=True, help="Ask nothing; with no budget, former ones too, it is what the plan can cost at most."
)
@click.option(
    "--exclusive",
    type=click.Choice([kind.value for kind in Exclusive]),
    default=Exclusive.USER.value,
    show_default=True,
    help="Share nodes with one's own jobs only; with nobody, and take all their GPUs; or only the GPUs with nobody.",
)
@click.option("--in-flight", type=click.IntRange(1, 10000), default=10, show_default=True, help="Runs that may wait.")
@click.option("--nice", type=int, metavar="N", help="sbatch's --nice: let other jobs go first.")
@click.option("--retry", is_flag=True, help="Try again what failed in an earlier call.")
@click.option("--state", "state_path", type=click.Path(dir_okay=False, path_type=Path), help=f"Default: {STATE} there.")
@click.option(
    "--on-interrupt",
    type=click.Choice(["ask", "leave", "cancel"]),
    default="ask",
    show_default=True,
    help="What becomes of the jobs at Ctrl-C; without a terminal, ask is leave.",
)
@as_json
@click.pass_obj
@guarded
def label(
    cfg: config.Config,
    scripts: Path,
    names: tuple[str, ...],
    least: int,
    most: int,
    gpu_hours: float | None,
    kwh: float | None,
    yes: bool,
    exclusive: str,
    in_flight: int,
    nice: int | None,
    retry: bool,
    state_path: Path | None,
    on_interrupt: str,
    as_json: bool,
) -> None:
    """Run each batch script of a folder, or of a list of paths with arguments, on each partition until two times agree.

    Two that differ by less than 10 % of their mean do; else there is a third run, and the closest pair counts. All runs
    are your own jobs. Called again, it goes on where it was.
    """
    if most < least:
        raise click.UsageError("--max-runs must not be less than --runs")
    if not yes and gpu_hours is None and kwh is None and not sys.stdin.isatty():
        raise click.UsageError("without a terminal, give a budget: --gpu-hours, --kwh or --yes")
    from slurmcast.label import show
    from slurmcast.label.main import Wish, run

    folder = (scripts if scripts.is_dir() else scripts.parent).absolute()
    wish = Wish(
        scripts=scripts,
        partitions=names,
        rules=Rules(least, most, in_flight, Exclusive(exclusive)),
        budget=Budget(gpu_hours, kwh),
        state=(state_path or folder / STATE).absolute(),
        ask=not yes,
        nice=nice,
        retry=retry,
        on_interrupt=on_interrupt,
    )
    answer = run(cfg, wish)
    emit(answer, as_json, show.results)
    sys.exit(0 if all(cell["stage"] == "done" for cell in answer["cells"]) else 1)
