"""``slurmcast report``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import click

from slurmcast import config, files
from slurmcast.client import Client
from slurmcast.console import Failure, as_json, guarded, named, time_option
from slurmcast.times import FORMS

TIMEOUT_S = 60.0
"""The daemon gives up before."""


@click.command(short_help="Energy, cost and carbon of finished runs; estimates against what came.")
@click.option("--user", callback=named, metavar="U", help="Only runs of user U.")
@click.option("--account", callback=named, metavar="A", help="Only runs of account A.")
@time_option("--since", f"Runs that ended from T on: {FORMS}; default: 4w before --until.")
@time_option("--until", "Up to T; default: now.")
@as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print the tables as CSV.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write a page with plots to FILE; -: print it.",
)
@click.pass_obj
@guarded
def report(
    cfg: config.Config,
    user: str | None,
    account: str | None,
    since: float | None,
    until: float | None,
    as_json: bool,
    as_csv: bool,
    page: Path | None,
) -> None:
    """What finished GPU runs used and cost, how long they waited, and how good their estimates were.

    One's own runs, or all for an operator.
    """
    if as_json + as_csv + (page is not None) > 1:
        raise click.UsageError("--json, --csv and --html are three different things")
    if since is not None and since >= (time.time() if until is None else until):
        raise click.UsageError("--since must be before --until, which is now unless it is given")
    query = {"user": user, "account": account, "since": since, "until": until}
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    patient = replace(cfg, client=replace(cfg.client, timeout_s=max(cfg.client.timeout_s, TIMEOUT_S)))
    answer = Client(patient).request("GET", f"/v1/report?{asked}")
    if page:
        from slurmcast.report.page import html

        if page == Path("-"):
            click.echo(html(answer), nl=False)
        else:
            try:
                _write(page, html(answer))
            except PermissionError as error:
                raise Failure(f"{error.filename}: {error.strerror}; choose a file that you may write") from None
            click.echo(f"Written: {page}")
    elif as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        from slurmcast.report import tables

        if as_csv:
            click.echo(tables.as_csv(answer), nl=False)
        else:
            tables.show(answer)


def _write(page: Path, text: str) -> None:
    """A page that was there stays where the new one can't be written; a device or a pipe is written to."""
    if page.exists() and not page.is_file():
        with files.naming(page):
            page.write_text(text, "utf-8")
    else:
        files.replace(page.resolve(), text)
