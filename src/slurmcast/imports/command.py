"""``slurmcast import``, for the agent's user."""

from __future__ import annotations

import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from slurmcast.client import Client, ClientError
from slurmcast.cluster.accounting import Accounting
from slurmcast.cluster.base import ClusterError
from slurmcast.config import Config
from slurmcast.console import Failure, as_json, emit, guarded, time_option
from slurmcast.imports import mark, show
from slurmcast.imports.mark import Mark
from slurmcast.imports.run import FIRST, Import
from slurmcast.owners import must_be
from slurmcast.show import moment
from slurmcast.times import FORMS

LATE_S = 300
"""Accounting may learn of a run this late. The newest runs are the agent's to bring."""
GOES_ON = "what is stored stays, the next import goes on from there"


@click.command("import", short_help="Bring the past from Slurm's accounting into the store.")
@time_option("--since", f"Runs that ended from T on: {FORMS}; default: August 2021.")
@time_option("--until", "Runs that ended before T; default: 5 minutes ago.")
@click.option("--restart", is_flag=True, help="Begin anew, however far an earlier import has come.")
@as_json
@click.pass_obj
@guarded
def import_(config: Config, since: float | None, until: float | None, restart: bool, as_json: bool) -> None:
    """Bring finished jobs from Slurm's accounting into the store, with their scripts where Slurm kept them
    (AccountingStoreFlags=job_script,job_env).

    Goes on where it was stopped; after its end, with what has finished since. To be run as the agent's user while
    slurmcastd runs: runuser -u slurmcast-agent -- slurmcast import
    """
    must_be(config.daemon.agent_user, "slurmcast import")
    now, folder = int(time.time()), config.paths.agent_state_dir
    first = None if since is None else max(int(since), 1)  # there were no jobs before
    end = now - LATE_S if until is None else min(int(until), now)
    if first is not None and first >= end:
        raise click.UsageError("--since must be in the past, and before --until (5 minutes ago, unless it is given)")
    with _alone(folder):
        start = _start(folder / "import.json", first, restart, now)
        client = Client(config)
        if client.request("GET", "/v1/health")["encoder"] is None:
            click.echo("slurmcastd has no encoder, so no probe can learn of these jobs; see its log", err=True)
        began = time.monotonic()
        with show.progress(start.until, end) as told:
            managed = frozenset(partition.name for partition in config.partition)
            work = Import(Accounting(), client, managed, folder / "import.json", told)
            try:
                with _stopped_by_sigterm():
                    done = work.run(start, end)
            except (ClusterError, ClientError) as error:
                raise Failure(f"{error}; {GOES_ON}") from None
            except KeyboardInterrupt:
                raise Failure(f"stopped at {moment(work.reached)}; {GOES_ON}") from None
    seconds = time.monotonic() - began
    emit(show.summary(start, done, work.new, seconds, _unencoded(client)), as_json, show.table)


def _unencoded(client: Client) -> int | None:
    """How many imported scripts the daemon has still to encode; None where it doesn't say."""
    try:
        return int(client.request("GET", "/v1/health")["past_waiting"])
    except ClientError:
        return None


def _start(file: Path, since: int | None, restart: bool, now: int) -> Mark:
    anew = Mark(since or FIRST, since or FIRST)
    if restart:
        return anew
    try:
        before = mark.load(file)
    except ValueError as error:
        raise Failure(f"{file}: {error}; --restart begins anew") from None
    if before is None:
        return anew
    if not 0 < before.since <= before.until <= now:
        raise Failure(f"{file}: it has times that aren't in the past; was the clock wrong? --restart begins anew")
    if since is not None and since > before.until:
        reached = moment(before.until)
        raise click.UsageError(
            f"an earlier import has come to {reached}; what ended between that and --since would never be imported: "
            "leave --since away, or begin anew from there with --restart"
        )
    return before.resume(since)


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder against a second import; the kernel lets go of it whatever ends this one."""
    with (folder / "import.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another import is at work; wait for its end") from None
        yield
