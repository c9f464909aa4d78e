"""``slurmcast simulate``: the group that the simulator's commands belong to."""

from __future__ import annotations

import click

from slurmcast.simulate.replay.commands import replay


@click.group()
def simulate() -> None:
    """Try policies on made-up or recorded work, without a cluster."""


simulate.add_command(replay)
