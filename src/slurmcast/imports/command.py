"""``slurmcast import``, for the agent's user."""

from __future__ import annotations

import fcntl
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import click

from slurmcast.client import Client
from slurmcast.cluster.accounting import Accounting
from slurmcast.cluster.base import ClusterError
from slurmcast.config import Config
from slurmcast.console import Failure, as_json, emit, guarded
from slurmcast.imports import mark, show
from slurmcast.imports.mark import Mark
from slurmcast.imports.run import FIRST, Import

LATE_S = 300
"""Accounting may learn of a run this late. The newest runs are the agent's to bring."""


@click.command("import", short_help="Bring the past from Slurm's accounting into the store.")
@click.option(
    "--since", type=click.DateTime(), help="Runs that ended at this local time or later; default: August 2021."
)
@click.option("--until", type=click.DateTime(), help="Runs that ended before this local time; default: 5 minutes ago.")
@click.option("--restart", is_flag=True, help="Begin anew, however far an earlier import has come.")
@as_json
@click.pass_obj
@guarded
def import_(config: Config, since: datetime | None, until: datetime | None, restart: bool, as_json: bool) -> None:
    """Bring finished jobs from Slurm's accounting into the store, with their scripts where Slurm kept them
    (AccountingStoreFlags=job_script,job_env).

    Goes on where it was stopped; after its end, with what has finished since. To be run as the agent's user while
    slurmcastd runs: runuser -u slurmcast-agent -- slurmcast import
    """
    _check_user(config.daemon.agent_user)
    now, folder = int(time.time()), config.paths.agent_state_dir
    first, last = _seconds(since), _seconds(until)
    end = now - LATE_S if last is None else min(last, now)
    if first is not None and first >= end:
        raise click.UsageError("--since must be before --until, and both in the past")
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
                done = work.run(start, end)
            except ClusterError as error:
                raise Failure(f"{error}; what is stored stays, the next import goes on from there") from None
    emit(show.summary(start, done, work.new, time.monotonic() - began), as_json, show.table)


def _check_user(name: str) -> None:
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    if user != name:
        raise Failure(f"this is to be run as {name}, not as {user}: runuser -u {name} -- slurmcast import")


def _seconds(moment: datetime | None) -> int | None:
    """Unix seconds, for there were no jobs before."""
    try:
        return None if moment is None else max(int(moment.timestamp()), 1)
    except (ValueError, OverflowError):
        raise click.UsageError(f"{moment} is too far from now") from None


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
    return before.resume(since)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder against a second import; the kernel lets go of it whatever ends this one."""
    with (folder / "import.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another import is at work; wait for its end") from None
        yield
