"""``slurmcast report``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import click

from slurmcast import config
from slurmcast.client import Client
from slurmcast.console import guarded, named, reads
from slurmcast.report.span import moment

TIMEOUT_S = 60.0
"""The daemon gives up before."""


def _moment(text: str) -> float:
    return moment(text, time.time())


@click.command(short_help="Energy, cost and carbon of finished runs; estimates against what came.")
@click.option("--user", callback=named, metavar="U", help="Only runs of user U.")
@click.option("--account", callback=named, metavar="A", help="Only runs of account A.")
@click.option(
    "--since",
    metavar="T",
    callback=reads(_moment),
    help="Runs that ended from T on: 2026-11-01, 2026-11-01T08:00, or 12h, 7d, 4w ago; default: 4w before --until.",
)
@click.option("--until", metavar="T", callback=reads(_moment), help="Up to T; default: now.")
@click.option("--json", "form", flag_value="json", help="Print JSON for programs.")
@click.option("--csv", "form", flag_value="csv", help="Print the tables as CSV.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with plots to FILE.",
)
@click.pass_obj
@guarded
def report(
    cfg: config.Config,
    user: str | None,
    account: str | None,
    since: float | None,
    until: float | None,
    form: str | None,
    page: Path | None,
) -> None:
    """What finished GPU runs used and cost, how long they waited, and how good their estimates were.

    One's own runs, or all for an operator.
    """
    if form and page:
        raise click.UsageError("--json, --csv and --html are three different things")
    query = {"user": user, "account": account, "since": since, "until": until}
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    patient = replace(cfg, client=replace(cfg.client, timeout_s=max(cfg.client.timeout_s, TIMEOUT_S)))
    answer = Client(patient).request("GET", f"/v1/report?{asked}")
    if page:
        from slurmcast.report.page import html

        page.write_text(html(answer), "utf-8")
        click.echo(f"Written: {page}")
    elif form == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        from slurmcast.report import tables

        if form == "csv":
            click.echo(tables.as_csv(answer), nl=False)
        else:
            tables.show(answer)
