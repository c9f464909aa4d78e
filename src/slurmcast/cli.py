"""The commands, thin: parse, call, print. Tables for people, ``--json`` for programs; errors say what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from slurmcast import __version__, config, show
from slurmcast.client import ENVIRONMENT, Client
from slurmcast.console import Failure, Finite, as_json, emit, guarded, named
from slurmcast.imports.command import import_
from slurmcast.label.command import label
from slurmcast.meter.command import meter
from slurmcast.owners import must_own_store
from slurmcast.report.command import report
from slurmcast.simulate.cli import simulate
from slurmcast.simulate.commands_tune import tune

LARGEST_JOB_ID = 2**32 - 1
"""Of the 32 bits that Slurm has for one."""


class JobId(click.IntRange):
    """A job's number; of an array's task (``7_1``) the array's, under which slurmcast knows it."""

    name = "job id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number: Any = str(value).partition("_")[0]
        return super().convert(number, param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help=f"Configuration file; default: $SLURMCAST_CONFIG, else {config.DEFAULT_PATH}.",
)
@click.pass_context
@guarded
def main(context: click.Context, config_path: Path | None) -> None:
    """Foresight for Slurm GPU clusters: how long a job will run, what it will use, why it waits."""
    context.obj = config.load(config_path)


main.add_command(simulate)
main.add_command(meter)
main.add_command(report)
main.add_command(tune)
main.add_command(label)
main.add_command(import_)


@main.command(
    context_settings={"ignore_unknown_options": True}, short_help="Expected time and energy of a batch script."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@as_json
@click.pass_obj
@guarded
def predict(cfg: config.Config, file: Path, arguments: tuple[str, ...], as_json: bool) -> None:
    """How long would FILE (a batch script, with its ARGUMENTS) run on each partition, and what would it use?

    Call it where you would call sbatch: the programs that FILE starts are read too, with your rights, and looked for
    from there (SLURMCAST_CAPTURE=0 leaves them out).
    Where an argument of FILE is spelled like an option of this command, put ``--`` before FILE.
    """
    from slurmcast.capture import as_json_text, sources
    from slurmcast.model import Submission

    script, environment = file.read_bytes(), {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    facts: dict[str, Any] = {"argv": (str(file), *arguments), "environment": environment, "work_dir": str(Path.cwd())}
    body = {"script": as_json_text(script), **facts}
    if os.environ.get("SLURMCAST_CAPTURE") != "0":
        submission = Submission(os.getuid(), "", "", 0, script, len(script), **facts)
        body["sources"] = {path: as_json_text(data) for path, data in sources(submission).items()}
    emit(Client(cfg).request("POST", "/v1/predict", body), as_json, show.prediction)


@main.command(short_help="Why a job waits, and where it will run.")
@click.argument("job_id", type=JobId(1, LARGEST_JOB_ID))
@as_json
@click.pass_obj
@guarded
def explain(cfg: config.Config, job_id: int, as_json: bool) -> None:
    """Why does job JOB_ID wait, where will it run, and what is expected of it?"""
    emit(Client(cfg).request("GET", f"/v1/explain/{job_id}"), as_json, show.explanation)


@main.command(short_help="Hand the sources of one's new jobs to slurmcastd.")
@click.argument("jobs", metavar="JOB_ID...", type=JobId(1, LARGEST_JOB_ID), nargs=-1, required=True)
@click.pass_obj
@guarded
def capture(cfg: config.Config, jobs: tuple[int, ...]) -> None:
    """Hand over the files that the scripts of your newly submitted jobs start; estimates are then made from them too.

    sbatch does this by itself where the site has set it up; SLURMCAST_CAPTURE=0 switches it off.
    """
    from slurmcast.capture import run

    for job_id, paths in run(cfg, jobs):
        for path in paths:
            click.echo(f"{job_id}: {path}")


@main.command(short_help="The pending jobs in slurmcast's order.")
@as_json
@click.pass_obj
@guarded
def queue(cfg: config.Config, as_json: bool) -> None:
    """The pending jobs in slurmcast's order: one's own, or all for an operator."""
    emit(Client(cfg).request("GET", "/v1/queue"), as_json, show.queue)


@main.command(short_help="Show or set the weight of energy.")
@click.argument("value", type=Finite(min=0), required=False)
@click.option("--partition", callback=named, metavar="P", help="For jobs on partition P; shown: what holds there.")
@click.option("--qos", callback=named, metavar="Q", help="For jobs of QOS Q; shown: what holds for them.")
@click.option("--reset", is_flag=True, help="Back to what the configuration says.")
@click.option("--history", is_flag=True, help="Who set what when.")
@as_json
@click.pass_obj
@guarded
def kappa(
    cfg: config.Config,
    value: float | None,
    partition: str | None,
    qos: str | None,
    reset: bool,
    history: bool,
    as_json: bool,
) -> None:
    """Show kappa, the weight of energy against time in 1/(GPU s kWh), or set it to VALUE (operators; no restart).

    A job's QOS comes before the partition, and both before the general kappa.
    """
    if sum((value is not None, reset, history)) > 1:
        raise click.UsageError("VALUE, --reset and --history are three different things")
    if history and (partition or qos):
        raise click.UsageError("--history shows all that was set: leave --partition and --qos away")
    client, scope = Client(cfg), {"partition": partition or "", "qos": qos or ""}
    if history:
        emit(client.request("GET", "/v1/kappa/history"), as_json, show.kappa_history)
    elif reset or value is not None:
        emit(client.request("PUT", "/v1/kappa", {"kappa": value, **scope}), as_json, show.kappa)
    else:
        emit(client.request("GET", f"/v1/kappa?{urlencode(scope)}"), as_json, show.kappa)


@main.command(short_help="Check the installation; say what to do.")
@as_json
@click.pass_obj
@guarded
def doctor(cfg: config.Config, as_json: bool) -> None:
    """Check hook, lease, spool, daemon, encoder, pyslurm, rights and priority plugin; say what to do."""
    from slurmcast.codec import to_json
    from slurmcast.doctor import examine

    checks = examine(cfg)
    emit([to_json(check) for check in checks], as_json, show.checks)
    sys.exit(0 if all(check.ok for check in checks) else 1)


@main.command(short_help="Give every pending job back what it had.")
@as_json
@click.pass_obj
@guarded
def release(cfg: config.Config, as_json: bool) -> None:
    """Give every pending job back what it had before slurmcast touched it.

    Stop the agent first, or it orders the queue again. Needs only the journal and scontrol.
    """
    from slurmcast.agent.release import release as give_back
    from slurmcast.codec import to_json

    results = give_back(cfg.paths.journal)
    emit([to_json(result) for result in results], as_json, show.released)
    sys.exit(0 if all(result.ok for result in results) else 1)


@main.command()
@click.pass_obj
@guarded
def serve(cfg: config.Config) -> None:
    """Run slurmcastd: read the spool, estimate, answer."""
    from slurmcast.daemon.service import serve as run

    sys.exit(run(cfg))


@main.command()
@click.option("--once", is_flag=True, help="One cycle, then end.")
@click.option("--dry-run", is_flag=True, help="One cycle that prints the changes instead of making them.")
@click.pass_obj
@guarded
def agent(cfg: config.Config, once: bool, dry_run: bool) -> None:
    """Run slurmcast-agent: keep the pending queue in order."""
    from slurmcast.agent.loop import run

    sys.exit(run(cfg, once=once, dry_run=dry_run))


@main.command(short_help="Train a probe on the finished jobs.")
@click.option("--when-due", is_flag=True, help="Only where estimates have drifted, or enough jobs have finished.")
@click.option("--kind", type=click.Choice(config.PROBE_KINDS), help="Default: probe.kind of the configuration.")
@click.option("--force", is_flag=True, help="Put the model to use even where the test speaks against it.")
@click.option("--list", "listed", is_flag=True, help="Show the versions that there are, with their figures.")
@click.option(
    "--rollback",
    is_flag=False,
    flag_value="",
    metavar="[VERSION]",
    help="Go back to the version before, or to VERSION.",
)
@as_json
@click.pass_obj
@guarded
def train(
    cfg: config.Config,
    when_due: bool,
    kind: str | None,
    force: bool,
    listed: bool,
    rollback: str | None,
    as_json: bool,
) -> None:
    """Train a probe on the finished jobs in the store; the daemon takes it over at once.

    First a model trained on the older jobs is tested on the newest ones: only where it isn't worse than what is in use,
    a model trained on all jobs is put to use. To be run as the daemon's user: runuser -u slurmcast -- slurmcast train
    """
    from slurmcast.evaluation import show as told
    from slurmcast.train import TrainError, train_from_store, train_when_due, versions
    from slurmcast.train import rollback as go_back

    if sum((when_due, listed, rollback is not None, force or kind is not None)) > 1:
        raise click.UsageError(
            "--when-due, --list, --rollback and training by hand (--kind, --force) are four different things"
        )
    if not listed:
        must_own_store(cfg, "slurmcast train")
    try:
        if listed:
            emit(versions(cfg), as_json, told.versions)
        elif when_due:
            emit(train_when_due(cfg), as_json, told.trained_when_due)
        elif rollback is not None:
            emit(go_back(cfg, rollback), as_json, told.rolled_back)
        else:
            emit(train_from_store(cfg, kind, force), as_json, told.trained)
    except TrainError as error:
        raise Failure(str(error)) from None


@main.command(short_help="How good the estimates are on the site's own jobs.")
@click.option(
    "--share",
    type=Finite(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Share of the jobs, the oldest, to learn from; the others test.",
)
@click.option("--paper", is_flag=True, help="Train the paper's probe too, which takes minutes and torch.")
@as_json
@click.pass_obj
@guarded
def evaluate(cfg: config.Config, share: float, paper: bool, as_json: bool) -> None:
    """Compare prior, history, probe and simple guesses on the newest finished jobs, each learned from the older ones.

    To be run as the daemon's user: runuser -u slurmcast -- slurmcast evaluate
    """
    from slurmcast.evaluate import evaluate as run
    from slurmcast.evaluation import show as told
    from slurmcast.train import TrainError

    must_own_store(cfg, "slurmcast evaluate")
    try:
        answer = run(cfg, share, paper)
    except TrainError as error:
        raise Failure(str(error)) from None
    emit(answer, as_json, told.evaluation)


if __name__ == "__main__":
    main()
