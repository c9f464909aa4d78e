"""``slurmcast tune``. Thin; what loads numpy waits until it is needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from slurmcast.client import Client, ClientError
from slurmcast.config import Config
from slurmcast.console import Failure, Finite, as_json, emit, guarded, reads
from slurmcast.model import DAY_S, HOUR_S


def _policy(name: str) -> str:
    """``name``, of a policy that weighs by kappa. Raises ValueError."""
    from slurmcast.policy.registry import POLICIES, known

    if known(name).knob != "kappa":
        weighing = ", ".join(name for name, policy in POLICIES.items() if policy.knob == "kappa")
        raise ValueError(f"policy {name} has no kappa to tune; these have: {weighing}")
    return name


def _objective(text: str) -> tuple[float, float, float]:
    """alpha, beta, gamma. Raises ValueError."""
    from slurmcast.simulate.tuning import objective

    return objective(text)


def _gpus(text: str) -> Any:
    """Pools. Raises ValueError."""
    from slurmcast.simulate.replay.trace import pools

    return pools(text)


@click.command(short_help="Which kappa, by what it would have done to this site's jobs.")
@click.option(
    "--objective",
    default="wait",
    callback=reads(_objective),
    show_default=True,
    metavar="wait|run|energy|A,B,C",
    help="What is to be small; A,B,C: weights of running, waiting and energy (the paper's alpha, beta, gamma).",
)
@click.option("--history/--synthetic", default=True, help="This site's finished jobs (default), or made-up ones.")
@click.option(
    "--days", type=click.IntRange(min=1), default=90, show_default=True, help="How far the history goes back."
)
@click.option(
    "--gpus", callback=reads(_gpus), metavar="PARTITION=N,...", help="GPUs; default: the most that were in use at once."
)
@click.option("--samples", type=click.IntRange(1, 100_000), default=40, show_default=True, help="Of made-up work.")
@click.option(
    "--policy", callback=reads(_policy), help="value, patient, ...; default: agent.policy of the configuration."
)
@click.option("--noise", type=Finite(0, 3), help="Error of predictions: 0.3 is 30 %. Default: as they were, else 0.3.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is drawn.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the trade-off: .png, .svg or .pdf.")
@click.option(
    "--apply", "applies", is_flag=True, help="Set the recommended kappa, if it is sure; not with --synthetic."
)
@as_json
@click.pass_obj
@guarded
def tune(
    cfg: Config,
    objective: tuple[float, float, float],
    history: bool,
    days: int,
    gpus: Any,
    samples: int,
    policy: str | None,
    noise: float | None,
    seed: int,
    plot: Path | None,
    applies: bool,
    as_json: bool,
) -> None:
    """Try many kappas on the jobs of the last months, show what each costs in waiting and energy, and recommend one.

    Nothing is changed without --apply. The history is the store's: runuser -u slurmcast -- slurmcast tune
    """
    from slurmcast.simulate import plots, tuning, tuning_show
    from slurmcast.simulate.engine import SimulationError
    from slurmcast.simulate.replay.trace import TraceError, UnknownPool
    from slurmcast.simulate.tuning_work import made_up, of_store
    from slurmcast.store.database import StoreError

    _check_options(history)
    client = Client(cfg)
    try:
        if plot:
            plots.check(plot)
        present, notes = _present(client, cfg)
        longest_wait_s = cfg.agent.longest_wait_h * HOUR_S
        setup = tuning.Setup(policy or cfg.agent.policy, objective, present, seed, cfg.agent.patience, longest_wait_s)
        if history:
            work = of_store(cfg, time.time() - days * DAY_S, gpus, noise, seed)
        else:
            work = made_up(cfg, samples, noise, seed)
        answer = tuning.report(work.samples, setup, work.kind)
        answer |= {"source": "history" if history else "synthetic", "notes": [*notes, *work.notes]}
    except UnknownPool as error:
        raise click.UsageError(str(error)) from None
    except (ValueError, TraceError, StoreError, SimulationError, tuning.TuningError, plots.PlotError) as error:
        raise Failure(str(error)) from None
    problems = [f"not set: {answer['reason']}"] if applies and not answer["sure"] else []
    try:
        if applies and answer["sure"]:
            answer["applied"] = client.request("PUT", "/v1/kappa", {"kappa": answer["recommended"]["kappa"]})
    except ClientError as error:
        problems.append(f"not set: {error}")
    emit(answer, as_json, tuning_show.tuned)  # whatever else fails: it took minutes
    try:
        if plot:
            tuning_show.draw(plot, answer)
    except plots.PlotError as error:
        problems.append(str(error))
    if problems:
        raise Failure("; ".join(problems))


def _check_options(history: bool) -> None:
    """Raise click.UsageError for an option that says nothing of the work that is asked for."""
    context = click.get_current_context()
    for name, option, of_history in (
        ("days", "--days", True),
        ("gpus", "--gpus", True),
        ("applies", "--apply", True),
        ("samples", "--samples", False),
    ):
        if of_history != history and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} goes with {'--history' if of_history else '--synthetic'} alone")


def _present(client: Client, cfg: Config) -> tuple[float, list[str]]:
    """Kappa as it is set, and what is to be said of it."""
    try:
        answer: dict[str, Any] = client.request("GET", "/v1/kappa")
    except ClientError:
        return cfg.agent.kappa, ["slurmcastd doesn't answer: the present kappa is taken from the configuration."]
    others = [setting["partition"] or setting["qos"] for setting in answer["others"]]
    note = f"One kappa is tried for all jobs; those set for {', '.join(others)} are left out."
    return float(answer["kappa"]), [note] if others else []
