"""``slurmcast simulate``: the group that the simulator's commands belong to."""

from __future__ import annotations

import click


@click.group()
def simulate() -> None:
    """Try policies on made-up or recorded work, without a cluster."""
