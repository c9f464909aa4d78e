"""How far an import has come, and what it brought, for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from slurmcast.imports.mark import Mark
from slurmcast.imports.run import Count
from slurmcast.show import Answer, duration, moment

LINE_EVERY_S = 10.0
WORDS = {
    Count.RECORDS: "records of runs that ended",
    Count.RUNS: "runs kept: on GPUs of managed partitions",
    Count.COMPLETED: "of these completed",
    Count.SCRIPTS: "of these with the script",
    Count.TOO_LONG: "of these with a script that is too long to be sent",
    Count.ELSEWHERE: "left out: on other partitions",
    Count.NO_GPUS: "left out: without GPUs",
    Count.NEVER_RAN: "left out: never ran",
    Count.UNSOUND: "left out: ended before they began",
}


@contextmanager
def progress(since: int, until: int) -> Iterator[Callable[[Mark], None]]:
    """A bar on a terminal, else a line now and then, on stderr. It goes by the time that the import has come to: how
    many records there are, nobody knows before."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines(until)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(moment(since), total=max(until - since, 0), said="")
        yield lambda done: bar.update(
            task, completed=done.until - since, description=moment(done.until), said=_said(done)
        )


def _lines(until: int) -> Callable[[Mark], None]:
    said = time.monotonic()

    def line(done: Mark) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_EVERY_S or done.until >= until:
            said = time.monotonic()
            click.echo(f"{moment(done.until)}: {_said(done)}", err=True)

    return line


def _said(done: Mark) -> str:
    return f"{done.counts.get(Count.RECORDS, 0):,} records, {done.counts.get(Count.RUNS, 0):,} runs kept"


def summary(start: Mark, done: Mark, new: int, spent_s: float, unencoded: int | None) -> dict[str, Any]:
    """What the import answers: all that is in the store by imports since ``since``, what this one did, and how many
    scripts are still to be encoded, where that is known."""
    records = done.counts.get(Count.RECORDS, 0) - start.counts.get(Count.RECORDS, 0)
    return {
        "since": done.since,
        "until": done.until,
        **{count.value: done.counts.get(count, 0) for count in Count},
        "this_time": {
            "records": records,
            "new_runs": new,
            "seconds": round(spent_s, 3),
            "records_per_s": round(records / spent_s, 1) if spent_s else None,
        },
        "unencoded": unencoded,
    }


def table(answer: Answer) -> None:
    """The answer as lines."""
    now = answer["this_time"]
    click.echo(f"{moment(answer['since'])} to {moment(answer['until'])}")
    for count, words in WORDS.items():
        click.echo(f"{answer[count]:>12,}  {words}")
    click.echo(f"this time {now['records']:,} records in {duration(now['seconds'])}, {now['new_runs']:,} new runs")
    if answer["unencoded"]:
        click.echo(f"{answer['unencoded']:,} scripts are still to be encoded (slurmcast doctor counts them)")
        click.echo("then: runuser -u slurmcast -- slurmcast train")
