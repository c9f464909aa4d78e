"""``slurmcast meter``."""

from __future__ import annotations

import sys

import click

from slurmcast import config
from slurmcast.console import Failure, guarded
from slurmcast.extras import install


@click.command(short_help="Measure the energy of this node's jobs.")
@click.pass_obj
@guarded
def meter(cfg: config.Config) -> None:
    """Run the meter on a GPU node: follow the jobs that prolog and epilog tell of, and report their energy."""
    try:
        from slurmcast.meter.service import serve
    except ImportError as error:
        raise Failure(f"{error}: {install('meter')}") from None
    sys.exit(serve(cfg))
